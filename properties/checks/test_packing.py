"""AUD-5 on a subject: documents packed into one row are as if each stood alone."""

from __future__ import annotations

import torch

from theodolite.fixtures.judging.judgement import at_most, not_applicable, require
from theodolite.fixtures.serving.packing import (
    Packing,
    leak,
    logits,
    numbered,
    packings_of,
    shows_hidden,
)
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_SHORTEST = 6


@check(
    "packing.documents",
    "AUD-5",
    component="mask",
    views=(
        "sharpened",
        "other backend",
    ),
    budget="standard",
)
def test_packed_documents_do_not_see_each_other(view: View) -> None:
    """Another text in one document changes no other; and each has the logits that it has alone.

    Without positions that begin again a mask may leave absolute ones to run on.
    """
    if view.obstacle:
        not_applicable(view.obstacle)
    if view.length < _SHORTEST or view.subject.convention.only_length is not None:
        not_applicable(f"three documents do not fit into {view.length} tokens")
    judged = [packing.said for packing in packings_of(view) if _judge(view, packing)]
    if not judged:
        not_applicable(
            "no way was found to say where documents begin in one row (numbers of documents, a "
            "mask of shape (B, 1, T, T), positions that begin again); declare packing=KEYWORD"
        )
    view.subject.note(f"documents packed into one row are told apart by {', '.join(judged)}")


def _judge(view: View, packing: Packing) -> bool:
    """Hold one way to its word; False where what mixes tokens is beyond its reach."""
    where = {"view": view.name, "told by": packing.said}
    found = leak(view, packing)
    if found is None and not packing.in_words:
        return False
    require(
        found is not None,
        f"a row of three documents, told apart by {packing.said}, is read",
        fails=f"A row of three documents, told apart by {packing.said}, is refused",
        where=where,
        remedy="Is it passed on to every layer, and lined up with the ids?",
        cause="packing-refused",
    )
    assert found is not None
    if not found <= view.leak_bound and not packing.in_words:
        shown = shows_hidden(view, packing)
        if not shown:
            return False  # a recurrence or convolution carries text over: a mask cannot reach it
        where["module"] = shown[0]
    at_most(
        found,
        view.leak_bound,
        "packed documents do not see each other",
        fails="Another text in one packed document changes the logits of the others by "
        "{measured}; they must not change at all",
        where=where,
        remedy="Is attention masked between documents in every layer? To let positions begin "
        "again is not enough.",
        cause="documents-see-each-other",
    )
    if packing.in_words or view.subject.positions is not None:
        _judge_alone(view, packing, where)
    return True


def _judge_alone(view: View, packing: Packing, where: dict[str, str]) -> None:
    ids = view.random_ids(packing.rows)
    documents = numbered(view, len(ids))[0]
    packed = logits(view, ids, packing)
    alone = [logits(view, ids[:, documents == number], None) for number in (1, 2, 3)]
    view.same(
        packed,
        torch.cat(alone, dim=1),
        "a packed document has the logits that it has alone",
        fails="A packed document has logits that are off by {measured} from those that it has "
        "alone",
        where=where,
        remedy="Are positions, and whatever else counts tokens, counted from the document's first?",
        component="position",
        cause="packed-positions",
    )
