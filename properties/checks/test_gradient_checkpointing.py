"""AUD-12: activations that are computed again in backward give the gradients of those kept."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointError

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import judge, none_of, not_applicable
from theodolite.fixtures.judging.tolerances import RELATION
from theodolite.fixtures.relations.checkpointing import Trained, switches, train_once
from theodolite.fixtures.subject.switches import Switch
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("gradient.checkpointing", "AUD-12", component="gradient", views=("sharpened",))
def test_checkpointing_changes_neither_logits_nor_gradients(view: View) -> None:
    """In train mode, under the same seed, with checkpointing and without."""
    switch, checkpointed = _checkpointed(view)
    plain = train_once(view)
    where = {"view": view.name, "switch": switch.name}
    if not _is_repeatable(view, plain):
        not_applicable("under the same seed two backwards differ in any case")
    view.same(
        checkpointed.logits,
        plain.logits,
        "with activation checkpointing the logits stay where they were",
        fails="Activation checkpointing changes the logits by {measured}; it must not change them",
        where=where,
        remedy="does the checkpointed path leave out an argument (mask, positions, dropout)?",
        cause="checkpoint-other-forward",
    )
    missing = sorted(set(plain.gradients) - set(checkpointed.gradients))
    none_of(
        missing,
        "with activation checkpointing every parameter keeps its gradient",
        fails="With activation checkpointing {measured} parameters get no gradient: {parameter}",
        where={**where, "parameter": ", ".join(missing[:4])},
        remedy="a reentrant checkpoint whose inputs need no gradient gives none: "
        "use_reentrant=False",
        cause="checkpoint-loses-gradients",
    )
    largest = _largest(plain)
    for name, gradient in plain.gradients.items():
        judge(
            checkpointed.gradients[name],
            gradient,
            "with activation checkpointing the gradients stay what they were",
            fails="Activation checkpointing changes the gradient of {parameter} by {measured}; "
            "it must not change it",
            bound=RELATION * float(gradient.abs().max()) + _cancelled(gradient) * largest,
            where={**where, "parameter": name},
            remedy="is dropout drawn anew (preserve_rng_state), or a state changed by the forward "
            "that runs twice?",
            cause="checkpoint-other-gradient",
        )


def _cancelled(gradient: Tensor) -> float:
    """What is left of a gradient that is 0, relative to the largest of the model.

    A bias on keys moves all scores of a query alike, which softmax does not feel: its gradient is a
    sum of terms no larger than the largest gradient that cancel, and leaves their rounding.
    """
    return torch.finfo(gradient.dtype).eps


def _checkpointed(view: View) -> tuple[Switch, Trained]:
    """Training under the first switch that has modules run again.

    Raises:
        NotApplicable: If there is none; says why.
    """
    found, tried = None, []
    for switch in switches(view.model):
        try:
            trained = train_once(view, switch)
        except SubjectError as error:
            tried.append(f"{switch.name} raises: {error}")
            continue
        except CheckpointError:
            view.require(
                False,
                "what is computed again for backward is what forward computed",
                fails="What is computed again for backward is not what forward computed",
                where={"switch": switch.name},
                remedy="Other tensors are kept the second time: is a branch taken by a random "
                "number, a counter or a cache that the first forward has changed?",
                cause="checkpoint-other-forward",
            )
        if trained.again:
            found = switch, trained
            break
        tried.append(f"with {switch.name} nothing is computed again")
    if found is None:
        not_applicable(
            "; ".join(tried)
            or "no activation checkpointing found: neither gradient_checkpointing_enable nor a "
            "flag or argument with checkpoint in its name"
        )
    return found


def _is_repeatable(view: View, plain: Trained) -> bool:
    again = train_once(view)
    return all(
        name in again.gradients and bool((again.gradients[name] == gradient).all())
        for name, gradient in plain.gradients.items()
    )


def _largest(trained: Trained) -> float:
    return max((float(g.abs().max()) for g in trained.gradients.values()), default=0.0)
