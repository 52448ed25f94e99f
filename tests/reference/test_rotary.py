"""Rotary positions against loops, and what makes them relative."""

import pytest
import torch
from hypothesis import strategies as st

from theodolite import reference
from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.strategies import drawn
from theodolite.reference import rotary

PAIRINGS = ("interleaved", "half")


@drawn(
    20,
    seed=st.integers(0, 1000),
    pairs=st.integers(1, 5),
    first=st.integers(0, 5000),
    pairing=st.sampled_from(PAIRINGS),
    base=st.sampled_from([2.0, 1e4, 1e6]),
    interpolation=st.sampled_from([1.0, 4.0]),
)
def test_rotation_is_what_the_formula_says(*, seed, pairs, first, pairing, base, interpolation):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, 2 * pairs, generator=generator, dtype=torch.float64)
    positions = torch.arange(first, first + 3)
    choices = {"base": base, "pairing": pairing, "interpolation": interpolation}
    expected = torch.from_numpy(oracle.rotate(x, positions, **choices))
    # an angle of m radians is known to a few eps·m, and moves a channel by as much of its pair
    bound = 8 * (first + 4) * torch.finfo(torch.float64).eps * x.abs().max()
    assert (reference.rotate(x, positions, **choices) - expected).abs().max() <= bound


def test_each_row_can_have_its_own_positions():
    x = torch.randn(2, 3, 4, 6, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 10]])
    both = reference.rotate(x, positions[:, None])
    assert torch.equal(both[1], reference.rotate(x[1], positions[1]))


def test_unless_told_otherwise_neighbours_turn_by_the_base_of_the_paper():
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = torch.arange(3) + 500
    said = {"base": 10000.0, "pairing": "interleaved", "interpolation": 1.0}
    expected = reference.rotate(x, positions, **said)
    assert torch.equal(reference.rotate(x, positions), expected)
    assert torch.equal(rotary.apply_rotation(x, rotary.rotation_at(positions, 8)), expected)
    assert torch.equal(rotary.apply_rotation(x, reference.Rotary(8)(positions)), expected)
    frequencies = reference.rotary_frequencies(8)
    assert torch.equal(frequencies, 10.0 ** -torch.arange(4, dtype=torch.float64))
    assert reference.rotary_frequencies(8, device=torch.device("meta")).is_meta


@pytest.mark.parametrize("length", [None, 600])
def test_the_module_turns_as_it_was_told(length):
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = torch.arange(3) + 500
    said = {"base": 500.0, "pairing": "half", "interpolation": 4.0}
    turned = rotary.apply_rotation(x, reference.Rotary(8, length=length, **said)(positions))
    assert torch.equal(turned, reference.rotate(x, positions, **said))


def test_a_table_holds_what_would_be_computed():
    computed, table = reference.Rotary(8, base=500.0), reference.Rotary(8, base=500.0, length=100)
    positions = torch.tensor([0, 99, 17])
    assert torch.equal(table(positions).cosine, computed(positions).cosine)
    assert torch.equal(table(positions).sine, computed(positions).sine)


@pytest.mark.parametrize("length", [None, 5000])
def test_casting_to_half_precision_leaves_late_positions_exact(length):
    positions = torch.tensor([4000])
    turner = reference.Rotary(64, length=length)
    before = turner(positions).cosine.clone()
    assert torch.equal(turner.to(torch.bfloat16)(positions).cosine, before)


def test_a_table_built_without_memory_is_there_once_the_model_is():
    with torch.device("meta"):
        turner = reference.Rotary(8, length=10)
    positions = torch.arange(10)
    assert torch.equal(turner(positions).sine, reference.Rotary(8)(positions).sine)


def test_half_precision_comes_back_as_it_came():
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    turned = reference.rotate(x, torch.arange(3) + 3000)
    assert turned.dtype == torch.bfloat16
    exact = reference.rotate(x.double(), torch.arange(3) + 3000)
    # rounded once, at the end: half an eps of the result (at most √2 times the larger channel)
    assert (turned.double() - exact).abs().max() <= 2**-8 * 2**0.5 * x.abs().max()


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="in pairs: 7 channels are not even"):
        reference.rotate(torch.zeros(2, 7), torch.arange(2))


@pytest.mark.parametrize(
    ("positions", "outside"), [([0, 10], 10), ([3, 12], 12), ([-1, 5], -1), ([-2, 12], -2)]
)
def test_a_position_outside_the_table_is_refused_by_its_number(positions, outside):
    with pytest.raises(ValueError, match=f"Position {outside} is outside the rotary table, which"):
        reference.Rotary(8, length=10)(torch.tensor(positions))


def test_positions_that_have_no_values_are_not_looked_at():
    table = reference.Rotary(8, length=10)
    assert table(torch.arange(0)).cosine.shape == (0, 4)
    shapes = table(torch.arange(3, device="meta"))
    assert shapes.sine.is_meta
    assert shapes.sine.shape == (3, 4)
