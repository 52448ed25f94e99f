"""NORM: the reference's RMSNorm and LayerNorm by name, in float64, with gains and shifts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge, judge_differs
from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.strategies import drawn, normal, seeds
from theodolite.properties import claim
from theodolite.reference import norm as reference

DOUBLE = 2.0**-53
"""Unit roundoff of float64."""

WIDTHS = st.sampled_from([6, 1, 2, 24, 129])
EPSILONS = st.sampled_from([1e-5, 1e-6, 1e-12, 1e-2])
AXES = ("row", "position", "channel")

Pair = tuple[reference.RMSNorm, reference.LayerNorm]


def _pair(width: int, eps: float, seed: int | None = None) -> Pair:
    """Both norms in float64; with a seed, both with the same random gain, and a random shift."""
    rms = reference.RMSNorm(width, eps).double().requires_grad_(False)
    layer = reference.LayerNorm(width, eps).double().requires_grad_(False)
    if seed is not None:
        gain, shift = normal(2, width, seed=seed)
        rms.weight.copy_(gain)
        layer.weight.copy_(gain)
        layer.bias.copy_(shift)
    return rms, layer


def _input(width: int, seed: int) -> Tensor:
    """Unit-variance input, (2, 3, width); with one channel its spread would be 0."""
    return normal(2, 3, width, seed=seed + 1)


def _bound(x: Tensor, expected: Tensor, eps: float, *, centred: bool) -> float:
    """(d + 12)u of the largest output; where the mean is taken away, κ and κ² of it besides.

    κ = max|x| / root; derived in test_norm. A gain multiplies all of it.
    """
    rounding = (x.shape[-1] + 12) * DOUBLE * max(1.0, float(expected.abs().max()))
    if not centred:
        return rounding
    root = (x.var(-1, unbiased=False) + eps).sqrt()
    condition = float((x.abs().amax(-1) / root).max())
    return rounding * (1 + condition + condition**2)


@claim("NORM-1")
@drawn(max_examples=30, width=WIDTHS, eps=EPSILONS, seed=seeds(), exponent=st.integers(-12, 12))
def test_both_norms_are_their_formulas_and_torchs_own(
    width: int, eps: float, seed: int, exponent: int
) -> None:
    """In float64, with random gains, against plain loops and against torch."""
    rms, layer = _pair(width, eps, seed)
    x = _input(width, seed) * 2.0**exponent
    gain, shift = rms.weight, layer.bias
    loudest = max(1.0, float(gain.abs().max()))
    witnesses = (
        ("RMSNorm", rms, oracle.rms_norm(x, gain, eps=eps), F.rms_norm(x, (width,), gain, eps)),
        (
            "LayerNorm",
            layer,
            oracle.layer_norm(x, gain, shift, eps=eps),
            F.layer_norm(x, (width,), gain, shift, eps),
        ),
    )
    for kind, module, formula, torchs_own in witnesses:
        expected = torch.from_numpy(formula)
        where = {"width": width, "eps": eps, "scale": f"2^{exponent}"}
        for name, other in (("its formula", expected), ("torch's own", torchs_own)):
            judge(
                module(x),
                other,
                f"{kind} is {name}",
                bound=_bound(x, expected, eps, centred=kind == "LayerNorm") * loudest,
                axes=AXES,
                where=where,
                remedy="eps inside the root, the biased variance, gain and shift last",
            )


@claim("NORM-2")
@drawn(max_examples=30, width=st.sampled_from([6, 2, 24, 129]), seed=seeds())
def test_layer_norm_ignores_a_shift_and_rms_norm_does_not(width: int, seed: int) -> None:
    """A shift by 4 turns the input's direction; with two channels too."""
    rms, layer = _pair(width, 1e-5)
    x = _input(width, seed)
    bound = 2 * _bound(x + 4, layer(x), 1e-5, centred=True)
    judge(layer(x + 4), layer(x), "LayerNorm ignores a shift", bound=bound, axes=AXES)
    judge_differs(
        rms(x + 4),
        rms(x),
        "RMSNorm does not centre, so it feels a shift",
        least=0.1,
        remedy="RMSNorm divides the input itself, not the input less its mean",
    )


@claim("NORM-2")
@drawn(max_examples=30, width=WIDTHS, eps=EPSILONS, seed=seeds())
def test_the_two_norms_agree_on_zero_mean_input(width: int, eps: float, seed: int) -> None:
    rms, layer = _pair(width, eps)
    x = _input(width, seed)
    x = x - x.mean(-1, keepdim=True)
    judge(
        rms(x),
        layer(x),
        "on input of mean zero, and with unit gains, RMSNorm equals LayerNorm",
        bound=2 * _bound(x, layer(x), eps, centred=True),
        axes=AXES,
        where={"width": width, "eps": eps},
    )


@claim("NORM-3")
@drawn(max_examples=20, width=WIDTHS, seed=seeds())
def test_the_gain_acts_per_channel(width: int, seed: int) -> None:
    """A gain g multiplies channel i of the unit-gain output by g_i; a shift is added after it."""
    x = _input(width, seed)
    (rms, layer), (plain_rms, plain_layer) = _pair(width, 1e-5, seed), _pair(width, 1e-5)
    gain, shift = rms.weight, layer.bias
    for kind, found, expected in (
        ("RMSNorm", rms(x), plain_rms(x) * gain),
        ("LayerNorm", layer(x), plain_layer(x) * gain + shift),
    ):
        judge(
            found,
            expected,
            f"the gain of {kind} multiplies each channel by its own factor",
            bound=8 * DOUBLE * (float(expected.abs().max()) + 1),
            axes=AXES,
            remedy="one gain a channel, applied after the division",
        )


@claim("NORM-3")
@drawn(max_examples=10, width=WIDTHS)
def test_rms_norm_has_one_parameter_a_channel_and_layer_norm_two(width: int) -> None:
    for kind, module, each in zip(
        ("RMSNorm", "LayerNorm"), _pair(width, 1e-5), (1, 2), strict=True
    ):
        judge(
            sum(parameter.numel() for parameter in module.parameters()),
            each * width,
            f"{kind} has {each} parameter{'s'[: each - 1]} a channel",
            where={"width": width},
        )


@claim("NORM-4")
@drawn(max_examples=20, seed=seeds())
def test_a_norm_of_many_is_the_norm_of_each(seed: int) -> None:
    """No position is felt by another, along time or along the batch, not even by its gradient."""
    for kind, module in zip(("RMSNorm", "LayerNorm"), _pair(24, 1e-5, seed), strict=True):
        x = _input(24, seed).requires_grad_()
        module(x)[1, 2].sum().backward()
        others = torch.ones(2, 3, dtype=torch.bool)
        others[1, 2] = False
        assert x.grad is not None
        judge(
            x.grad[others],
            0.0,
            f"{kind} at one position has gradient 0 with respect to every other",
            axes=("other position", "channel"),
            remedy="normalise over the last axis alone; over time it leaks the future",
        )
