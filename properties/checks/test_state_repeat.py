"""GPT-8: evaluation is the same every time."""

from __future__ import annotations

import torch

from theodolite.fixtures.judging.judgement import judge, not_applicable
from theodolite.fixtures.relations.registration import unregistered_modules
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check

_DROPOUT = (
    "is dropout applied in eval mode (F.dropout without training=self.training, or dropout_p "
    "passed to scaled_dot_product_attention unconditionally)?"
)


_UNREGISTERED = (
    "modules in a plain list or dict are not registered: eval() does not reach them, nor does an "
    "optimiser; use nn.ModuleList or nn.ModuleDict"
)


@check("state.repeat", "GPT-8", component="dropout", gate=True)
def test_evaluation_is_the_same_every_time(subject: Subject) -> None:
    """In eval mode the same ids give the same logits, whatever the random generator's state."""
    if not hasattr(subject.model, "eval"):
        not_applicable("the model has no eval mode")
    ids = subject.random_ids(2)
    first = subject.run(subject.model, ids)
    again = subject.run(subject.model, ids)
    if not bool(torch.isfinite(first).all()):
        not_applicable("the logits are not finite")
    judge(
        again,
        first,
        "a second call gives the logits of the first",
        fails="A second call on the same ids gives logits that are off by {measured}",
        axes=("row", "position", "token"),
        remedy="does forward keep state from one call to the next (a cache that is not reset)?",
        component="state",
        cause="state-between-calls",
    )
    hidden = unregistered_modules(subject.model)
    judge(
        subject.run(subject.model, ids, seed=1),
        first,
        "evaluation does not depend on the random generator",
        fails="In evaluation the logits change by {measured} with the random seed",
        axes=("row", "position", "token"),
        where={"module": hidden[0]} if hidden else {},
        remedy=_UNREGISTERED if hidden else _DROPOUT,
        component="parameters" if hidden else None,
        cause="unregistered" if hidden else "dropout-in-eval",
    )
