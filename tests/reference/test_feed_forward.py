"""Feed-forward networks and the rounding rule."""

from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import nn

from theodolite import reference
from theodolite.fixtures.oracles.strategies import drawn


def test_swiglu_gates_a_linear_branch():
    torch.manual_seed(0)
    layer, x = reference.SwiGLU(6, 10), torch.randn(2, 3, 6)
    w1, w3, w2 = layer.gate.weight, layer.up.weight, layer.down.weight
    gate = x @ w1.T
    expected = (gate * gate.sigmoid() * (x @ w3.T)) @ w2.T
    assert torch.allclose(layer(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_original_widens_by_four(activation):
    torch.manual_seed(0)
    layer, x = reference.FeedForward(6, activation=activation, bias=True), torch.randn(2, 3, 6)
    hidden = F.linear(x, layer.up.weight, layer.up.bias)
    hidden = hidden.relu() if activation == "relu" else F.gelu(hidden, approximate="tanh")
    assert hidden.shape[-1] == 24
    assert torch.equal(layer(x), F.linear(hidden, layer.down.weight, layer.down.bias))


@pytest.mark.parametrize(("kind", "own"), [(reference.SwiGLU, 16), (reference.FeedForward, 24)])
def test_the_hidden_width_is_the_kinds_own_unless_another_is_asked_for(kind, own):
    assert kind(6).up.out_features == kind(6).down.in_features == own
    assert kind(6, 10).up.out_features == kind(6, 10).down.in_features == 10


@pytest.mark.parametrize("kind", [reference.SwiGLU, reference.FeedForward])
@pytest.mark.parametrize("bias", [False, True])
def test_all_layers_have_a_bias_or_none(kind, bias):
    layers = [layer for layer in kind(6, bias=bias).modules() if isinstance(layer, nn.Linear)]
    assert {layer.bias is not None for layer in layers} == {bias}


@drawn(100, width=st.integers(1, 20_000), multiple=st.sampled_from([1, 8, 64, 256]))
def test_the_gated_width_is_the_next_multiple_of_eight_thirds(width, multiple):
    hidden = reference.gated_width(width, multiple)
    assert hidden % multiple == 0
    assert 0 <= hidden - Fraction(8 * width, 3) < multiple
