"""POS-2 on a subject: each position looks up a learned vector of its own."""

from __future__ import annotations

import re

from theodolite.fixtures.judging.judgement import each
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_POSITIONS = re.compile(
    r"(?:^|[._])(?:wpe|pos(?:ition(?:al|s)?)?)(?:_?emb\w*|_?enc\w*|[._]|$)", re.IGNORECASE
)
"""Names of tables of positions: wpe, pos_emb, embed_positions, position_embeddings ..."""


@check("positions.lookup", "POS-2", component="position", views=("sharpened",))
def test_each_position_looks_up_a_vector_of_its_own(view: View) -> None:
    """The rows that are read from a table of positions count up by one, from wherever.

    In one row of tokens at least: some count no padding, and a token drawn at random may be that.
    """
    inside = view.insides.random
    rows, length = inside.ids.shape
    for look in each(
        inside.recording.embeddings,
        "no table whose name says position (wpe, pos_emb ...) is looked up",
    ):
        shape = tuple(look.indices.shape)
        if not _POSITIONS.search(look.weight) or shape not in {
            (length,),
            (1, length),
            (rows, length),
        }:
            continue
        places = look.indices.reshape(-1, length)
        steps = places.diff(dim=-1)
        view.require(
            bool((steps == 1).all(-1).any()),
            "positions count up by one",
            where={"table": look.weight, "rows read": places[0].tolist()},
            remedy="Every position reads the same vector: are positions 0, 1, 2 ... made at all?"
            if not steps.any()
            else "They count down: is the first token's position 0?"
            if bool((steps == -1).all())
            else "Are positions scaled, clipped or begun again inside the sequence?",
            cause="positions-alike" if not steps.any() else "positions-not-counted",
        )
