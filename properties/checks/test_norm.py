"""The norms of a subject, each held to NORM by what it does to chosen inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from theodolite.fixtures.anatomy.norm import FITS, NormReading, norms_of, own_copy
from theodolite.fixtures.judging.judgement import each, judge, not_applicable, require
from theodolite.fixtures.judging.tolerances import EQUAL
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("norm.formula", "NORM-1", "NORM-2", component="norm", views=("sharpened",))
def test_each_norm_is_an_rms_norm_or_a_layer_norm(view: View) -> None:
    """Its output keeps its size whatever the input's, and is x/RMS(x), or centred, x/σ(x)."""
    judged = 0
    for place, norm in _norms(view):
        known = {
            2: ("norm-multiplies", "it multiplies by the RMS: x · rsqrt(...), or x / sqrt(...)"),
            -3: ("variance-squared", "it divides by the square of the variance, not its root"),
            -1: ("root-missing", "it divides by the mean square, not its root"),
        }
        cause, what = known.get(round(norm.power), ("norm-not-scale-free", "is a root missing?"))
        judge(
            norm.power,
            0.0,
            "the norm's output keeps its size when the input grows",
            fails="The norm's output grows as the input to the power {power of the input}; it "
            "must keep its size",
            bound=0.02,
            where={**place, "power of the input": round(norm.power, 2)},
            remedy=f"{what[0].upper()}{what[1:]}",
            cause=cause,
        )
        if norm.kind is None:
            continue
        judged += 1
        require(
            norm.kind in ("rms", "layer"),
            "what is divided and what it is divided by are both centred, or neither",
            fails="The norm divides a vector that is not centred by its standard deviation"
            if norm.kind == "deviation"
            else "The norm centres the vector, and divides it by its size before centring",
            where=place,
            remedy="RMSNorm divides by the root of the mean square, LayerNorm centres first and "
            "divides by the deviation.",
            cause="rms-by-deviation" if norm.kind == "deviation" else "layer-norm-by-rms",
        )
    if not judged:
        not_applicable("no norm has a formula that is known here (RMSNorm, LayerNorm)")


@check("norm.epsilon", "NORM-1", component="norm", views=("sharpened",))
def test_epsilon_stands_inside_the_root(view: View) -> None:
    """As the input fades, the output fades as s/√(s² + ε), and nothing at all gives no NaN."""
    for place, norm in each(_norms(view), "no norm shows an epsilon"):
        if norm.epsilon is None:
            continue
        require(
            norm.epsilon != "missing",
            "a position whose channels are all zero is normalised to finite numbers",
            fails="The norm makes NaN of a position whose channels are all zero",
            where=place,
            remedy="0/0 is NaN, and one NaN spreads: add epsilon to the mean square.",
            cause="epsilon-missing",
        )
        require(
            norm.epsilon == "inside",
            "epsilon is added to the mean square, before the root",
            fails="Epsilon is added outside the root, not to the mean square under it",
            where=place,
            remedy="x / (rms + eps) is smaller than published for tiny activations: "
            "x / sqrt(ms + eps) is meant.",
            cause="epsilon-outside",
        )


@check("norm.gain", "NORM-3", component="norm", views=("sharpened",))
def test_each_channel_has_its_own_gain_over_an_rms_of_one(view: View) -> None:
    """Output = gain times a vector of RMS 1, the gain being the norm's weight, or 1 + weight.

    An unbiased deviation, which is smaller by √((d-1)/d), is let pass.
    """
    for place, norm in each(
        _norms(view), "no norm has a weight for each channel and follows a known formula"
    ):
        weights = [p for p in norm.module.parameters() if p.numel() == norm.width]
        if norm.gain is None or not weights:
            continue
        uniform = float(norm.gain.std() / norm.gain.abs().max()) <= FITS
        varied = any(float(p.detach().double().std()) > EQUAL for p in weights)
        require(
            not (uniform and varied),
            "each channel is multiplied by its own gain",
            fails="Every channel is multiplied by the same factor, though the norm has a gain "
            "for each",
            where=place,
            remedy="Is the weight applied, channel by channel?",
            cause="gain-not-applied",
        )
        weight = weights[0].detach().double().cpu()
        for offset in (0.0, 1.0):
            factor = float((norm.gain * (weight + offset)).sum() / (weight + offset).square().sum())
            if float((norm.gain - factor * (weight + offset)).abs().max()) > FITS * abs(factor):
                continue
            judge(
                factor,
                1.0,
                "with unit gains the output's RMS is 1",
                fails="With unit gains the root mean square of the norm's output is "
                f"{factor:.4g}, not 1",
                bound=1 - (1 - 1 / norm.width) ** 0.5 + FITS,
                where=place,
                remedy="Is the sum of squares taken where the mean was meant?"
                if abs(factor * norm.width**0.5 - 1) <= FITS
                else "What else multiplies the output?",
                cause="sum-for-mean"
                if abs(factor * norm.width**0.5 - 1) <= FITS
                else "norm-of-other-size",
            )
            break


@check("norm.per_position", "NORM-4", component="norm", views=("sharpened",))
def test_each_norm_looks_at_one_position_alone(view: View) -> None:
    """Change every other position, or every other row: this one's output stays."""
    for place, norm in _norms(view):
        given = norm.call.given
        if given is None or given.ndim < 3:
            continue
        module = own_copy(norm.module)
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(given.shape, generator=generator).to(given)
        for axis, name in ((1, "other positions"), (0, "other rows")):
            changed = given + noise
            changed.select(axis, 0).copy_(given.select(axis, 0))
            with torch.no_grad():
                before, after = module(given), module(changed)
            judge(
                after.select(axis, 0),
                before.select(axis, 0),
                f"a position's norm does not depend on {name}",
                fails=f"Changing {name} changes the norm of a position by {{measured}}; it must "
                "not change at all",
                bound=EQUAL * float(before.abs().max()),
                where=place,
                remedy="Take the mean over the channels alone: mean(-1, keepdim=True).",
                cause="norm-over-positions" if axis else "norm-over-batch",
            )


def _norms(view: View) -> Iterator[tuple[dict[str, Any], NormReading]]:
    found = 0
    for norm in norms_of(view.insides.random):
        found += 1
        yield {"view": view.name, "module": norm.path}, norm
    if not found:
        not_applicable("no module is a norm: norms are written inline, or there are none")
