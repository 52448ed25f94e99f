"""GPT-7: logits are numbers."""

from __future__ import annotations

import torch

from theodolite.fixtures.judging.judgement import none_of, not_applicable, require
from theodolite.fixtures.relations.blame import accuse, first_not_finite
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check


@check("logits.finite", "GPT-7", component="shape", gate=True)
def test_logits_are_finite(subject: Subject) -> None:
    """No logit of random tokens is NaN or infinite."""
    ids = subject.random_ids(2)
    logits = subject.run(subject.model, ids)
    wrong = (~torch.isfinite(logits)).nonzero().tolist()
    view = subject.views.as_given
    none_of(
        wrong,
        "logits are finite",
        fails="{measured} logits are NaN or infinite",
        where=dict(zip(("row", "position", "token"), wrong[0], strict=True)) if wrong else {},
        remedy="is a row fully masked, a division by zero, or a weight uninitialised?",
        blame=lambda: accuse(view, ids, first_not_finite(view, ids), otherwise="shape"),
    )


@check("logits.unnormalised", "GPT-7", component="softmax", gate=True)
def test_logits_are_no_probabilities(subject: Subject) -> None:
    """Somewhere the numbers of a position are negative, or do not sum to 1."""
    logits = subject.run(subject.model, subject.random_ids(2)).double()
    if not bool(torch.isfinite(logits).all()):
        not_applicable("not judged: the logits are not finite (see logits.finite)")
    if logits.shape[-1] == 1:
        not_applicable("the vocabulary has one token alone, whose probability is always 1")
    off = float((logits.sum(dim=-1) - 1).abs().max())
    # rounding of V sums of numbers up to 1, in the dtype that the model computes in
    rounding = logits.shape[-1] * torch.finfo(subject.dtype).eps
    normalised = bool((logits >= 0).all()) and off <= rounding
    require(
        not normalised,
        "the model gives logits, not probabilities",
        fails=(
            "The model gives probabilities, not logits: no number is negative, and those of each "
            "position sum to 1 "
            f"(to within {off:.2g})"
        ),
        remedy="take the softmax at the end out of forward: cross_entropy, and whoever samples "
        "with a temperature, apply it themselves",
        cause="probabilities",
    )
