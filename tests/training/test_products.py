"""Linear layers through oneDNN give what they give through MKL."""

import pytest
import torch
from torch import nn

from theodolite.reference import GPT, GPTConfig
from theodolite.reference.products import fast_products


def products(layer, x):
    x = x.clone().requires_grad_()
    layer.zero_grad()
    y = layer(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(parameter.grad for parameter in layer.parameters())]


@pytest.mark.parametrize("shape", [(5, 24), (3, 7, 24), (2, 1, 3, 24)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_result_and_gradients_are_those_of_the_default(shape, bias, dtype):
    """Sums of up to 42 products of order 1 to 100: rounding stays below 42·6e-8 of their size."""
    torch.manual_seed(0)
    layer, x = nn.Linear(24, 10, bias=bias, dtype=dtype), torch.randn(shape, dtype=dtype)
    expected = products(layer, x)
    with fast_products():
        found = products(layer, x)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= 42 * 6e-8 * other.abs().max()


def test_inputs_that_are_views_are_taken():
    layer, x = nn.Linear(6, 4, bias=False), torch.randn(6, 5, 3).transpose(0, 1)
    with fast_products():
        found = layer(x.transpose(1, 2))
    torch.testing.assert_close(found, layer(x.transpose(1, 2)))


def test_outside_the_context_nothing_is_changed():
    model, ids = GPT(GPTConfig(width=16, layers=2, heads=2)), torch.zeros(1, 3, dtype=torch.long)
    before = model(ids)
    with fast_products():
        model(ids)
    assert torch.equal(model(ids), before)
