"""AUD-13 on a subject: what forward takes of each token it heeds."""

from __future__ import annotations

import pytest

from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.judging.judgement import each, not_applicable
from theodolite.fixtures.serving.ignored import heeds, names_of, purpose
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_ACTING = ("rotary", "learned", "sinusoidal")
"""Positions that are numbers: where there are none, or distances alone, their ids do nothing."""


@pytest.mark.parametrize("kind", ["mask", "positions", "documents"])
@check("arguments.heeded", "AUD-13", component="padding", views=("sharpened",))
def test_what_forward_takes_of_each_token_changes_something(view: View, kind: str) -> None:
    """A padding mask, positions, numbers of documents: some value of each changes a logit.

    Recurrent layers know no mask, and a model without positions, or with a bias by distance, takes
    their ids so as to be called like others.
    """
    names = names_of(view, kind)
    if not names:
        not_applicable(f"forward names no {kind}")
    if view.length < 4 or view.subject.convention.only_length is not None:
        not_applicable("too few tokens, or a length of its own, to tell")
    inside = view.insides.random.recording
    if not inside.calls:
        not_applicable(f"attention is not visible: {inside.reason}")
    if kind == "positions" and anatomy_of(view.subject).positions not in _ACTING:
        not_applicable("positions enter by distance, or not at all: their numbers mean nothing")
    for name in each(names, "forward refuses every value that was tried"):
        found = heeds(view, kind, name)
        if found is not None:
            view.require(
                found,
                f"{name} of forward changes something",
                fails=f"Whatever {name} is given to forward, no logit changes",
                where={"argument": name},
                **purpose(kind),
            )
