"""ATT-9 on a subject: a query sees the key of its own position."""

from __future__ import annotations

import torch

from theodolite.fixtures.anatomy.attentions import attentions
from theodolite.fixtures.judging.judgement import each, require
from theodolite.fixtures.recording.attention_call import AttentionCall
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_PARALLEL = 1 - 1e-4
"""Cosine of the angle between a key and its own query, where the two are one vector."""


@check("inside.itself", "ATT-9", component="mask", views=("sharpened",))
def test_each_query_sees_its_own_position(view: View) -> None:
    """Some query, in some head, gives weight to the key of its own position, or none of them may.

    The first query is left out: alone with itself it often sees itself where no other does.
    Keys that are the queries (Reformer) hide themselves by design, since they would win each time.
    """
    declared = view.subject.declarations.get("sees_itself", True)
    for place, call in each(
        attentions(view), "queries and keys do not lie one for one along the sequence, or are alike"
    ):
        if call.probabilities.shape[-2:] != (view.length, view.length) or view.length < 3:
            continue
        if declared and _are_one(call):
            continue
        weights = call.probabilities.double()
        own = float(weights.diagonal(dim1=-2, dim2=-1)[..., 1:].abs().max())
        past = float(weights.tril(-1).abs().max())
        if not past > 0:
            continue
        require(
            (own > 0) == declared,
            f"queries give {'' if declared else 'no '}weight to the key of their own position",
            fails="No query but the first gives weight to the key of its own position"
            if declared
            else "Queries give weight to the key of their own position, {measured} at most",
            measured=own,
            where=place,
            remedy="Is the diagonal cut off as well: tril(-1), triu(0) as the mask, or < where <= "
            "is meant? If it is meant, declare it (--declare sees_itself=false)."
            if declared
            else "It is declared that they do not.",
            cause="diagonal-hidden" if declared else "diagonal-seen",
        )


def _are_one(call: AttentionCall) -> bool:
    """Whether each key points where the query of its position does."""
    query, key = call.query.double(), call.key.double()
    if key.shape[1] != query.shape[1] or key.shape != query.shape:
        return False
    return bool((torch.cosine_similarity(query, key, dim=-1) >= _PARALLEL).all())
