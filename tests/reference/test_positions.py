"""Absolute positions."""

import math

import pytest
import torch

from theodolite import reference


def test_sinusoidal_vectors_are_the_stated_waves():
    vectors = reference.sinusoidal(torch.tensor([0, 3]), 4)
    slow = 3 / 100
    expected = [[0, 1, 0, 1], [math.sin(3), math.cos(3), math.sin(slow), math.cos(slow)]]
    assert torch.allclose(vectors, torch.tensor(expected, dtype=torch.float64), atol=1e-15)


def test_the_base_sets_the_slower_waves():
    positions = torch.arange(3)
    vectors = reference.sinusoidal(positions, 4, base=100.0)
    waves = (positions.double() / 10).sin()
    # of 0.2 at most, after five roundings (power, product; quotient; two sines)
    assert (vectors[:, 2] - waves).abs().max() <= torch.finfo(torch.float64).eps
    assert torch.equal(reference.SinusoidalPositions(4, base=100.0)(positions), vectors)
    usual = reference.SinusoidalPositions(4)(positions)
    assert torch.equal(usual, reference.sinusoidal(positions, 4, base=10000.0))
    assert torch.equal(usual, reference.sinusoidal(positions, 4))


def test_vectors_are_where_the_positions_are():
    assert reference.sinusoidal(torch.arange(3, device="meta"), 4).is_meta


def test_sinusoidal_products_depend_on_distance_alone():
    vectors = reference.sinusoidal(torch.arange(50), 32)
    products = vectors @ vectors.T
    # 16 cosines of angles up to 50, each known to 50 eps
    assert (products[:-7, :-7] - products[7:, 7:]).abs().max() <= 16 * 4 * 50 * 2**-52


def test_learned_positions_are_rows_of_a_table_that_ends():
    learned = reference.LearnedPositions(5, 3)
    assert torch.equal(learned(torch.tensor([4])), learned.table.weight[4:])
    with pytest.raises(ValueError, match="Position 5 is outside the table of learned positions"):
        learned(torch.tensor([5]))
