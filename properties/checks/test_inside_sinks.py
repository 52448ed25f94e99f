"""Attention sinks: a learned score that takes weight and meets no value (ATT-2)."""

from __future__ import annotations

from theodolite.fixtures.anatomy.attentions import attentions
from theodolite.fixtures.anatomy.sinks import FITS, learned_sink
from theodolite.fixtures.judging.judgement import each, judge
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("inside.sinks", "ATT-2", component="softmax", views=("sharpened",))
def test_a_sink_joins_the_sum_under_the_softmax(view: View) -> None:
    """Weights exp(s_j) / (exp(sink) + Σ exp(s)), whether as a column or as a factor afterwards.

    As a factor it is σ(log Σ exp(s) - sink), of the same sink that the model learned.
    """
    inside = view.insides.random
    for place, call in each(attentions(view), "attention has no sinks"):
        learned = learned_sink(inside, view.model, call)
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
