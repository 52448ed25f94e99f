"""AUD-12: every parameter learns, and everything that learns is a parameter."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from theodolite.fixtures.relations.idle_parameters import idle_parameters
from theodolite.fixtures.relations.gradients import Learning, learning
from theodolite.fixtures.judging.judgement import not_applicable, require
from theodolite.fixtures.subject.subject import Subject
from theodolite.fixtures.subject.view import View
from theodolite.properties import claim


@claim("AUD-12", check="gradient.every_parameter", component="gradient")
def test_every_parameter_receives_a_gradient(view: View) -> None:
    """After a backward from next-token loss no parameter's gradient is missing, zero or NaN."""
    found = _learning_of(view)
    bad = found.not_finite
    require(
        not bad,
        "every gradient is finite",
        measured=float(len(bad)),
        where={"parameter": bad[0] if bad else "", "view": view.name},
        remedy="a square root, division or norm at exactly 0, or a fully masked row?",
    )
    dead = found.dead
    if dead:  # what another kind of forward reads learns from another kind of loss
        elsewhere = idle_parameters(view).elsewhere
        dead = [name for name in dead if name not in elsewhere]
    require(
        not dead,
        "every parameter receives a gradient",
        measured=float(len(dead)),
        bound=0.0,
        where={"parameter": ", ".join(dead[:4]), "view": view.name},
        remedy="is the module never called, another called in its place, or its result detached "
        "(no_grad, .data, .item())?",
        component=found.component_of(dead) if dead else None,
        cause=found.cause_of(dead) if dead else None,
    )


@claim("AUD-12", "GPT-3", check="parameters.registered", component="parameters")
def test_every_weight_is_registered(subject: Subject) -> None:
    """Each leaf that the loss depends on is one of model.parameters()."""
    strangers = _learning_of(subject.views.sharpened).unregistered
    require(
        not strangers,
        "every weight that the logits depend on is in model.parameters()",
        measured=float(len(strangers)),
        bound=0.0,
        where={"weight": ", ".join(strangers[:4])},
        remedy="modules in a plain list or dict are not registered: use nn.ModuleList, "
        "nn.ModuleDict or nn.Parameter; an optimiser does not see them, nor does state_dict",
        cause="unregistered",
    )


def _learning_of(view: View) -> Learning:
    found = learning(view, _next_token_loss)
    if found is None:
        not_applicable("the logits carry no gradient (inference mode, or frozen throughout)")
    return found


def _next_token_loss(logits: Tensor, ids: Tensor) -> Tensor:
    targets = ids[:, 1:].flatten().to(logits.device)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets)
