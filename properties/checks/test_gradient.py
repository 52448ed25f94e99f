"""AUD-12: every parameter learns, and everything that learns is a parameter."""

from __future__ import annotations

from dataclasses import replace

from theodolite.fixtures.judging.judgement import none_of, not_applicable, require
from theodolite.fixtures.relations.gradients import next_token_learning
from theodolite.fixtures.relations.idle_parameters import idle_parameters
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("gradient.every_parameter", "AUD-12", component="gradient")
def test_every_parameter_receives_a_gradient(view: View) -> None:
    """After a backward from next-token loss no parameter's gradient is missing, zero or NaN."""
    _require_a_graph(view)
    found = next_token_learning(view)
    bad = found.not_finite
    none_of(
        bad,
        "every gradient is finite",
        fails="The gradients of {measured} parameters are NaN or infinite",
        where={"parameter": bad[0] if bad else "", "view": view.name},
        remedy="a square root, division or norm at exactly 0, or a fully masked row?",
    )
    dead = found.dead
    if dead:  # what another kind of forward reads learns from another kind of loss
        elsewhere = idle_parameters(view).elsewhere
        dead = [name for name in dead if name not in elsewhere]
    if dead and not view.training:  # detached in evaluation, on purpose or not: training counts
        training = next_token_learning(replace(view, training=True))
        learns = set(dead) - set(training.dead)
        if learns:
            view.subject.note(f"in evaluation no gradient reaches {', '.join(sorted(learns)[:4])}")
        dead = [name for name in dead if name not in learns]
    none_of(
        dead,
        "every parameter receives a gradient",
        fails="No gradient reaches {measured} parameters: {parameter}",
        where={"parameter": ", ".join(dead[:4]), "view": view.name},
        remedy="is the module never called, another called in its place, or its result detached "
        "(no_grad, .data, .item())?",
        component=found.component_of(dead) if dead else None,
        cause=found.cause_of(dead) if dead else None,
    )


def _require_a_graph(view: View) -> None:
    """Parameters that ask for a gradient can get one: from this mode, or at least in training."""
    if not any(p.requires_grad for p in view.model.parameters()) or _has_graph(view):
        return
    if _has_graph(replace(view, training=True)):
        not_applicable("in evaluation the logits are detached; in train mode they are not")
    require(
        condition=False,
        says="the logits carry a gradient to the parameters, which ask for one",
        fails="The logits carry no gradient, in evaluation or in train mode, though the "
        "parameters ask for one",
        where={"view": view.name},
        remedy="is forward decorated with no_grad or inference_mode, does it call "
        "set_grad_enabled(False), or detach its result? Leave that to whoever calls it, or set "
        "requires_grad_(False) on a model that is not to learn.",
        cause="no-graph",
    )


def _has_graph(view: View) -> bool:
    return view.logits(view.random_ids(2), gradient=True).requires_grad
