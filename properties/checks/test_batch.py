"""AUD-3: a row of a batch is computed as if it were alone."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.fixtures.relations.blame import accuse, first_difference
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_KEPT = 1
REMEDY = (
    "does something run over the batch axis: attention fed (B, T, d) where it wants (T, B, d), a "
    "norm or a softmax over axis 0, a mean over all tokens? (A model that takes ids as (T, B): "
    "--declare layout=sequence.)"
)


@check("batch.independence", "AUD-3", component="batch", rows="mixed")
def test_a_row_does_not_depend_on_the_other_rows(view: View) -> None:
    """Change the rows around one: its logits stay; alone, it gives the same again."""
    ids = view.random_ids(3)
    changed = view.subject.other_ids(ids)
    changed[_KEPT] = ids[_KEPT]
    logits = view.logits(ids)[_KEPT]
    _judge_rows(view, ids, changed, logits, view.logits(changed)[_KEPT], view.leak_bound)
    view.same(
        view.logits(ids[_KEPT : _KEPT + 1])[0],
        logits,
        "a row gives the same logits alone and in a batch of 3",
        fails="A row gives other logits alone than in a batch of 3: they differ by {measured}",
        remedy=REMEDY,
    )


@check("batch.order", "AUD-3", component="batch", rows="mixed")
def test_permuting_the_rows_permutes_the_logits(view: View) -> None:
    """The order of the rows in a batch does not matter."""
    ids = view.random_ids(3)
    order = torch.tensor([2, 0, 1])
    view.same(
        view.logits(ids[order]),
        view.logits(ids)[order],
        "permuting the rows permutes the logits",
        fails="In another order of the rows, the logits of a row change by {measured}",
        remedy=REMEDY,
    )


def _judge_rows(
    view: View, ids: Tensor, changed: Tensor, first: Tensor, second: Tensor, bound: float
) -> None:
    gap = float(torch.nan_to_num((first - second).abs(), nan=torch.inf).max())
    guilty = None
    if not gap <= bound:
        agreeing = torch.zeros(ids.shape, dtype=torch.bool)
        agreeing[_KEPT] = True
        path = first_difference(view, ids, changed, agreeing, bound)
        guilty = accuse(view, ids, path, otherwise="batch")
    # Attention that mixes rows is a matter of the batch axis; experts and norms have their own.
    own = guilty.component if guilty and guilty.component in ("moe", "norm", "softmax") else None
    view.same(
        second,
        first,
        "a row's logits do not depend on the other rows",
        fails="Changing the other rows of the batch changes the logits of row {row} by "
        "{measured}; they must not change at all",
        bound=bound,
        where={"row": _KEPT, **(guilty.where if guilty else {})},
        remedy=REMEDY,
        component=own,
    )
