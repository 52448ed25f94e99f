"""GPT-7: logits are numbers."""

from __future__ import annotations

import torch

from theodolite.fixtures.judging.judgement import none_of
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
        where=dict(zip(("row", "position", "token"), wrong[0], strict=True)) if wrong else {},
        remedy="is a row fully masked, a division by zero, or a weight uninitialised?",
        blame=lambda: accuse(view, ids, first_not_finite(view, ids), otherwise="shape"),
    )
