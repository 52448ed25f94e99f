"""Attention sinks: a learned score that takes weight and meets no value (ATT-2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from theodolite.fixtures.anatomy.attentions import attentions
from theodolite.fixtures.judging.judgement import each, judge
from theodolite.fixtures.recording.attention_call import AttentionCall, scores_of
from theodolite.fixtures.recording.forward import Forward
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

FITS = 1e-3
"""Largest distance between what fits: float32 leaves 1e-5, a sink of the wrong weight its size."""


@check("inside.sinks", "ATT-2", component="softmax", views=("sharpened",))
def test_a_sink_joins_the_sum_under_the_softmax(view: View) -> None:
    """Weights exp(s_j) / (exp(sink) + Σ exp(s)), whether as a column or as a factor afterwards.

    As a factor it is σ(log Σ exp(s) - sink), of the same sink that the model learned.
    """
    inside = view.insides.random
    for place, call in each(attentions(view), "attention has no sinks"):
        if call.extra_columns == 1 and call.softmax_output is not None and call.scores is not None:
            sink = call.scores[..., -1] - _shift(call, call.scores)
        else:
            found = _sink_of_factor(inside, call)
            if found is None:
                continue
            sink = found
        learned = _nearest(view.model, call, sink)
        if learned is None:
            continue
        name, times = learned
        judge(
            times,
            1.0,
            "a sink enters the softmax as one more score",
            fails="A sink enters the softmax {times} times; it must enter it once",
            bound=10 * FITS,
            where={**place, "parameter": name, "times": round(times, 3)},
            remedy=f"It enters {times:.3g} times: exp(sink) joins the sum once; as a factor on the "
            "output that is sigmoid(logsumexp(scores) - sink).",
            cause="sink-weight",
        )


def _shift(call: AttentionCall, scores: Tensor) -> Tensor:
    """(B, H, T), what was added to each whole row of scores, read off each query's own key."""
    product = scores_of(call.query, call.key) * (call.scale or 1.0)
    if product.shape[-1] != product.shape[-2]:
        return torch.zeros_like(scores[..., 0])
    rows = scores[..., : product.shape[-1]]
    return rows.diagonal(dim1=-2, dim2=-1) - product.diagonal(dim1=-2, dim2=-1)


def _sink_of_factor(inside: Forward, call: AttentionCall) -> Tensor | None:
    """(B, H, T) sinks that explain a factor on each head's output, or None if there is none."""
    if call.scores is None or call.output.shape[-1] < 2:
        return None
    output = call.output.double()  # (B, H, T, d)
    batch, heads, length, width = output.shape
    for part in inside.within(call.module):
        given = part.given
        if given is None or given.numel() != output.numel() or not part.is_leaf:
            continue
        got = given.double().reshape(batch, length, heads, width).transpose(1, 2)
        factor = (got * output).sum(-1) / output.square().sum(-1)  # (B, H, T)
        away = (got - factor[..., None] * output).abs().max()
        below = bool(((factor > 0) & (factor < 1 - FITS)).all())
        if below and float(away) <= FITS * float(output.abs().max()):
            return call.scores.double().logsumexp(-1) - torch.logit(factor)
    return None


def _nearest(model: nn.Module, call: AttentionCall, sink: Tensor) -> tuple[str, float] | None:
    """The parameter of one number a head that is in proportion to the sinks, and how many times."""
    sink = sink.double()
    mean = sink.mean((0, 2))
    if float((sink - mean[:, None]).abs().max()) > FITS * float(mean.abs().max()) + FITS:
        return None
    for name, parameter in model.get_submodule(call.module).named_parameters():
        values = parameter.detach().double().flatten().cpu()
        if values.numel() != mean.numel() or not bool(values.any()):
            continue
        times = float((mean * values).sum() / values.square().sum())
        if float((mean - times * values).abs().max()) <= 10 * FITS * float(mean.abs().max()):
            return name, times
    return None
