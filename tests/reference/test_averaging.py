"""The mean of the past, three times the same."""

import torch

from theodolite import reference


def test_three_ways_to_average_the_past_agree():
    x = torch.randn(2, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    loop = reference.running_mean_by_loop(x)
    # weights are float32 fractions 1/(t+1): off by 2^-24 of themselves, over at most 7 terms
    bound = 7 * 2**-24 * x.abs().max()
    assert (reference.running_mean_by_product(x) - loop).abs().max() <= bound
    assert (reference.running_mean_by_softmax(x) - loop).abs().max() <= bound


def test_a_masked_weight_is_exactly_zero():
    weights = reference.masked_softmax_matrix(5)
    assert torch.equal(weights.triu(1), torch.zeros(5, 5))
    assert torch.allclose(weights, reference.averaging_matrix(5), rtol=2**-22, atol=0)
