"""AUD-9, AUD-12, GPT-3: parameters are initialised, registered, and as many as the shape needs."""

from __future__ import annotations

import torch

from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.judging.judgement import judge, none_of, not_applicable, require
from theodolite.fixtures.judging.tolerances import LARGEST_SANE_WEIGHT
from theodolite.fixtures.relations.gradients import next_token_learning
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check


@check("parameters.sane", "AUD-9", component="init", gate=True)
def test_parameters_are_initialised(subject: Subject) -> None:
    """Every parameter and buffer is finite and of sane size: memory was initialised."""
    named = [*subject.model.named_parameters(), *subject.model.named_buffers()]
    weights = dict(subject.model.named_parameters())
    for name, tensor in named:
        if not tensor.is_floating_point() or tensor.is_meta:
            continue
        nan = bool(torch.isnan(tensor).any())
        largest = float(tensor.detach().abs().max()) if tensor.numel() and not nan else 0.0
        insane = name in weights and not largest <= LARGEST_SANE_WEIGHT
        require(
            not (nan or insane),
            "every parameter is initialised",
            fails="{parameter} holds NaN, or numbers as large as {measured}: it was never "
            "initialised",
            measured=largest,
            at_most=LARGEST_SANE_WEIGHT if name in weights else None,
            where={"parameter": name},
            remedy="is it made by torch.empty and never filled?",
        )


@check("parameters.registered", "AUD-12", "GPT-3", component="parameters")
def test_every_weight_is_registered(subject: Subject) -> None:
    """Each leaf that the loss depends on is one of model.parameters()."""
    strangers = next_token_learning(subject.views.sharpened).unregistered
    none_of(
        strangers,
        "every weight that the logits depend on is in model.parameters()",
        fails="{measured} weights are used that model.parameters() does not have: {weight}",
        where={"weight": ", ".join(strangers[:4])},
        remedy="modules in a plain list or dict are not registered: use nn.ModuleList, "
        "nn.ModuleDict or nn.Parameter; an optimiser does not see them, nor does state_dict",
        cause="unregistered",
    )


@check("parameters.formula", "GPT-3", component="parameters")
def test_parameters_are_as_many_as_the_anatomy_predicts(subject: Subject) -> None:
    """At least as many as the parts with a closed formula need, and none that is not registered.

    More is no fault: a family may have learned scales or gates that no formula here knows, and
    what never runs is found by its gradient (AUD-12).
    """
    parameters = anatomy_of(subject).parameters
    require(
        not parameters.unregistered,
        "every parameter that runs is a parameter of the model",
        fails="Parameters are used that the model does not know as its own, in {modules}",
        where={"modules": ", ".join(path or "the model" for path in parameters.unregistered)},
        remedy="Layers in a plain list are not registered: nothing trains, saves or moves them. "
        "Put them into an nn.ModuleList.",
        cause="parameters-unregistered",
    )
    known = subject.declarations.get("parameters")
    if known is not None:
        judge(
            float(parameters.total),
            float(known),
            "the model has as many parameters as declared",
            fails=f"The model has {parameters.total:,} parameters, and {int(known):,} are declared",
            remedy="Are shared weights counted once?",
        )
    predicted = parameters.predicted
    if not predicted:
        not_applicable("no part of the model has a known formula for its number of parameters")
    needed = sum(predicted.values())
    judge(
        float(max(needed - parameters.total, 0)),
        0.0,
        f"the model has the {needed:,} parameters that its measured shape needs",
        fails=f"The model has {parameters.total:,} parameters, and its measured shape needs "
        f"{needed:,} in {', '.join(predicted)} alone",
        remedy="Are two layers, or two projections, one module by mistake?",
        cause="parameters-missing",
    )
