"""AUD-12: every parameter learns, and everything that learns is a parameter."""

from __future__ import annotations

from theodolite.fixtures.judging.judgement import none_of
from theodolite.fixtures.relations.gradients import next_token_learning
from theodolite.fixtures.relations.idle_parameters import idle_parameters
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("gradient.every_parameter", "AUD-12", component="gradient")
def test_every_parameter_receives_a_gradient(view: View) -> None:
    """After a backward from next-token loss no parameter's gradient is missing, zero or NaN."""
    found = next_token_learning(view)
    bad = found.not_finite
    none_of(
        bad,
        "every gradient is finite",
        where={"parameter": bad[0] if bad else "", "view": view.name},
        remedy="a square root, division or norm at exactly 0, or a fully masked row?",
    )
    dead = found.dead
    if dead:  # what another kind of forward reads learns from another kind of loss
        elsewhere = idle_parameters(view).elsewhere
        dead = [name for name in dead if name not in elsewhere]
    none_of(
        dead,
        "every parameter receives a gradient",
        where={"parameter": ", ".join(dead[:4]), "view": view.name},
        remedy="is the module never called, another called in its place, or its result detached "
        "(no_grad, .data, .item())?",
        component=found.component_of(dead) if dead else None,
        cause=found.cause_of(dead) if dead else None,
    )
