"""NORM: what LayerNorm and RMSNorm compute, on any part that is offered as `norm`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge, judge_differs, require
from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.strategies import drawn, normal, seeds
from theodolite.properties import claim

Norm = Callable[[Tensor], Tensor]

SINGLE = 2.0**-24
"""Unit roundoff of float32, in which a part is judged: every part runs in it."""

LARGEST_EPSILON = 1e-2
"""An epsilon above this would be felt by ordinary activations."""


def _apply(norm: Norm, x: Tensor) -> Tensor:
    """The norm in float32, its result widened so that comparing adds no rounding."""
    with torch.no_grad():
        return norm(x.float()).double()


def _centres(norm: Norm, width: int) -> bool:
    """Whether it subtracts the mean: a LayerNorm does not feel a shift, an RMSNorm does.

    A shift by 3 moves an RMSNorm's output by about 1 and a LayerNorm's by rounding.
    """
    x = normal(4, width, seed=1)
    return float((_apply(norm, x + 3) - _apply(norm, x)).abs().max()) < 0.1


def _epsilon(norm: Norm, width: int) -> float:
    """Epsilon as the part acts: an input of RMS s comes out with RMS r = s/√(s² + eps).

    Read at s = 2⁻²⁰, where s² is 1e-12 and r² = s²/eps for any epsilon in use.
    """
    s = 2.0**-20
    r = float(_apply(norm, s * _standard(width, seed=2)).square().mean().sqrt())
    return s**2 / r**2 - s**2


def _standard(width: int, seed: int) -> Tensor:
    """One vector of mean 0 and RMS 1, shape (1, 1, width): to it both norms are the same."""
    x = normal(1, 1, width, seed=seed)
    x = x - x.mean()
    return x / x.square().mean().sqrt()


def _bound(x: Tensor, expected: Tensor) -> float:
    """How far float32 may be from the formula.

    With unit roundoff u: a sum of d squares errs by at most (d + 1)u of itself, its root by half
    of that, the division and the gain by a few u; epsilon, read off the part, by as much again.
    Together (d + 12)u of the largest output. Centring adds the mean's error, d·u·max|x|, and
    where the variance is taken as mean(x²) - mean(x)², d·u·mean(x²): relative to the deviation
    these are κ and κ² times the first, κ = max|x| / deviation.
    """
    deviation = x.double().std(-1, unbiased=False).clamp(min=1e-30)
    condition = float((x.double().abs().amax(-1) / deviation).max())
    largest = float(expected.abs().max())
    return (x.shape[-1] + 12) * SINGLE * largest * (1 + condition + condition**2)


@claim("NORM-1", component="norm")
@drawn(
    max_examples=40,
    seed=seeds(),
    exponent=st.integers(-14, 10),
    offset=st.sampled_from([0.0, 1.0, -2.0]),
)
def test_norm_is_its_formula_with_epsilon_inside_the_root(
    norm: Norm, norm_width: int, seed: int, exponent: int, offset: float
) -> None:
    """From activations far below √eps, where it decides, to those where it vanishes."""
    x = ((normal(3, 5, norm_width, seed=seed) + offset) * 2.0**exponent).float()
    kind = "LayerNorm" if _centres(norm, norm_width) else "RMSNorm"
    formula = oracle.layer_norm if kind == "LayerNorm" else oracle.rms_norm
    expected = torch.from_numpy(formula(x.double().numpy(), eps=_epsilon(norm, norm_width)))
    judge(
        _apply(norm, x),
        expected,
        f"{kind} divides by the root of (mean square + eps) of what it normalises",
        bound=_bound(x, expected),
        axes=("row", "position", "channel"),
        where={"scale": f"2^{exponent}", "offset": offset},
        remedy="eps inside the root, the biased variance, one root, and a division, in this order",
    )


@claim("NORM-2", component="norm")
@drawn(max_examples=30, seed=seeds(), exponent=st.integers(1, 12))
def test_norm_ignores_scale(norm: Norm, norm_width: int, seed: int, exponent: int) -> None:
    """Beyond rounding only epsilon feels the scale, by at most eps/2 of an output at RMS 1."""
    x = normal(3, 5, norm_width, seed=seed).float()
    expected = _apply(norm, x)
    smallest = float(x.double().var(-1, unbiased=False).min())
    share_of_epsilon = min(_epsilon(norm, norm_width), LARGEST_EPSILON) / (2 * smallest)
    judge(
        _apply(norm, x * 2.0**exponent),
        expected,
        "a norm gives the same for x and for a multiple of x",
        bound=2 * _bound(x, expected) + share_of_epsilon * float(expected.abs().max()),
        axes=("row", "position", "channel"),
        where={"factor": 2**exponent},
        remedy="is the input divided by its own scale, to the first power?",
    )


@claim("NORM-2", component="norm")
@drawn(max_examples=30, seed=seeds())
def test_both_norms_agree_on_zero_mean_input(norm: Norm, norm_width: int, seed: int) -> None:
    x = normal(3, 5, norm_width, seed=seed)
    x = (x - x.mean(-1, keepdim=True)).float()
    epsilon = _epsilon(norm, norm_width)
    for formula in (oracle.rms_norm, oracle.layer_norm):
        expected = torch.from_numpy(formula(x.double().numpy(), eps=epsilon))
        judge(
            _apply(norm, x),
            expected,
            "on input of mean zero, LayerNorm and RMSNorm with unit gain are the same",
            bound=_bound(x, expected),
            axes=("row", "position", "channel"),
        )


@claim("NORM-2", component="norm")
@drawn(max_examples=20, seed=seeds(), shift=st.sampled_from([0.5, 1.0, -3.0]))
def test_a_shift_is_ignored_or_kept_but_not_half_of_each(
    norm: Norm, norm_width: int, seed: int, shift: float
) -> None:
    """LayerNorm removes the mean altogether; RMSNorm's output points where its input does."""
    x = (normal(3, 5, norm_width, seed=seed) + shift).float()
    out = _apply(norm, x)
    if _centres(norm, norm_width):
        says = "LayerNorm's output has mean 0 over the channels"
        judge(out.mean(-1), 0.0, says, bound=_bound(x, out), axes=("row", "position"))
        return
    judge_differs(out, _apply(norm, x - shift), "RMSNorm feels a shift", least=0.1)
    direction = x.double() / x.double().norm(dim=-1, keepdim=True)
    judge(
        out,
        (out * direction).sum(-1, keepdim=True) * direction,
        "RMSNorm does not centre: its output is a multiple of its input",
        bound=_bound(x, out),
        axes=("row", "position", "channel"),
        remedy="RMSNorm divides the input itself, not the input less its mean",
    )


@claim("NORM-3", component="norm")
@drawn(max_examples=30, seed=seeds(), exponent=st.integers(-6, 10))
def test_output_has_unit_rms(norm: Norm, norm_width: int, seed: int, exponent: int) -> None:
    """With unit gain; epsilon makes it √(s²/(s² + eps)) for an input of mean square s²."""
    x = (normal(3, 5, norm_width, seed=seed) * 2.0**exponent).float()
    out = _apply(norm, x)
    wide = x.double()
    if _centres(norm, norm_width):
        wide = wide - wide.mean(-1, keepdim=True)
    square = wide.square().mean(-1)
    expected = (square / (square + _epsilon(norm, norm_width))).sqrt()
    judge(
        out.square().mean(-1).sqrt(),
        expected,
        "a norm with unit gain gives every position an RMS of 1",
        bound=_bound(x, out),
        axes=("row", "position"),
        where={"scale": f"2^{exponent}"},
        remedy="multiply by the reciprocal root of the mean square (not by the root itself)",
    )


@claim("NORM-4", component="norm")
@drawn(max_examples=20, seed=seeds(), row=st.integers(0, 2), position=st.integers(0, 4))
def test_a_position_is_normalised_by_its_own_channels_alone(
    norm: Norm, norm_width: int, seed: int, row: int, position: int
) -> None:
    """Alone, and beside others however large: the same vector comes out."""
    x = normal(3, 5, norm_width, seed=seed).float()
    beside = x * 2.0**7
    beside[row, position] = x[row, position]
    expected = _apply(norm, x[row : row + 1, position : position + 1])[0, 0]
    bound = 2 * _bound(x[row, position], expected)
    for company, what in ((x, "equal"), (beside, "far larger")):
        judge(
            _apply(norm, company)[row, position],
            expected,
            f"a position comes out the same alone and beside {what} neighbours",
            bound=bound,
            axes=("channel",),
            where={"row": row, "position": position},
            remedy="normalise over the last axis alone; over time it leaks the future",
        )


@claim("NORM-4", component="norm")
@drawn(max_examples=20, seed=seeds(), channel=st.integers(0, 2**16))
def test_every_channel_of_a_position_counts(
    norm: Norm, norm_width: int, seed: int, channel: int
) -> None:
    """The control: one large channel lowers all others of its position."""
    x = normal(3, 5, norm_width, seed=seed).float()
    louder = x.clone()
    louder[1, 2, channel % norm_width] += 2.0**10
    kept = torch.arange(norm_width) != channel % norm_width
    require(
        bool(_apply(norm, louder)[1, 2, kept].std() < _apply(norm, x)[1, 2, kept].std() / 8),
        "a channel far louder than the others lowers the others of its position",
        where={"channel": channel % norm_width},
        remedy="is the mean square taken over all channels?",
    )
