"""Norms against loops and against torch's own."""

import pytest
import torch
from hypothesis import strategies as st

from theodolite import reference
from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.strategies import drawn

EPS = torch.finfo(torch.float64).eps


@drawn(
    20,
    seed=st.integers(0, 1000),
    width=st.integers(1, 9),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
    eps=st.sampled_from([1e-12, 1e-5, 1.0]),
)
def test_norms_are_what_their_formulas_say(seed, width, size, eps):
    generator = torch.Generator().manual_seed(seed)
    x = size * torch.randn(2, 3, width, generator=generator, dtype=torch.float64)
    gain, shift = torch.randn(2, width, generator=generator, dtype=torch.float64)
    rms, layer = reference.RMSNorm(width, eps).double(), reference.LayerNorm(width, eps).double()
    rms.weight.data, layer.weight.data, layer.bias.data = gain, gain, shift
    # outputs are at most √C·|gain| + |shift|; C + 8 roundings each. Centring first is off by
    # C·eps·|x|, which 1/√(var + eps_inside) may enlarge
    largest = width**0.5 * float(gain.abs().max()) + float(shift.abs().max())
    rounding = (width + 8) * EPS * largest
    assert _distance(rms(x), oracle.rms_norm(x, gain, eps=eps)) <= rounding
    spread = (x.var(-1, correction=0) + eps).sqrt().min()
    centring = 4 * width * EPS * float(x.abs().max() / spread) * (largest + 1)
    expected = oracle.layer_norm(x, gain, shift, eps=eps)
    assert _distance(layer(x), expected) <= rounding + centring


def test_norms_are_torchs_own():
    x = torch.randn(4, 7, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rms, layer = torch.nn.RMSNorm(10, 1e-5).double(), torch.nn.LayerNorm(10).double()
    assert (reference.RMSNorm(10).double()(x) - rms(x)).abs().max() <= 20 * EPS * 10**0.5
    assert (reference.LayerNorm(10).double()(x) - layer(x)).abs().max() <= 40 * EPS * 10**0.5


@pytest.mark.parametrize("kind", [reference.RMSNorm, reference.LayerNorm])
def test_half_precision_does_not_overflow_and_comes_back_as_it_came(kind):
    unit = torch.tensor([[1.0, -1.0] * 4] * 2, dtype=torch.float16)
    out = kind(8).half()(1000 * unit)  # a square is 1e6, past the largest half, 65504
    assert out.dtype == torch.float16
    assert torch.equal(out, unit)


def _distance(found, expected):
    return float((found.detach() - torch.from_numpy(expected)).abs().max())
