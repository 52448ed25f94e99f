"""AUD-11: every length from one token to the longest."""

from __future__ import annotations

from functools import partial

import torch

from theodolite.fixtures.anatomy.rotated_scores import is_scaled_with_length
from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import not_applicable, require
from theodolite.fixtures.relations.blame import leak_of
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_LONGEST_TRIED = 4096


@check("length.shortest", "AUD-11", component="shape")
def test_a_single_token_is_enough(view: View) -> None:
    """T = 1 gives the first logits of any longer sequence."""
    if view.subject.convention.only_length is not None:
        not_applicable(f"the model runs at length {view.subject.convention.only_length} alone")
    if view.subject.shortest > 1:
        not_applicable(f"the model refuses fewer than {view.subject.shortest} tokens")
    ids = view.random_ids(2)
    view.same(
        view.logits(ids[:, :1]),
        view.logits(ids)[:, :1],
        "one token alone gives the first logits",
        fails="One token alone gives logits that are off by {measured} from the first of a "
        "longer text",
        remedy="does squeeze() drop the axis of length 1, or a mask need two positions?",
        blame=partial(leak_of, view),
    )


@check("length.longest", "AUD-11", component="shape", budget="standard")
def test_the_longest_input_works_and_a_longer_one_is_refused_or_right(view: View) -> None:
    """At the limit the first logits are those of a short input; past it: the same, or an error."""
    if view.name != "as given":
        not_applicable("the longest input does not depend on the weights: judged as given alone")
    if view.subject.convention.only_length is not None:
        not_applicable(f"the model runs at length {view.subject.convention.only_length} alone")
    limit, found = view.subject.said_longest, view.subject.found_longest
    if found is not None and limit is not None:
        require(
            condition=False,
            says=f"the model runs at its own longest length, {limit}",
            fails=f"The model does not run at its own longest length, {limit}, but at most at "
            f"{found}",
            measured=found,
            at_least=limit,
            where={"length": found + 1},
            remedy="is a table of positions or a mask too short?",
        )
    elif limit is None:
        limit = 16 * view.length if found is None else found
    elif limit > _LONGEST_TRIED:
        not_applicable(f"its longest input, {limit}, is more than an audit's {_LONGEST_TRIED}")
    short = view.random_ids(1)
    expected = view.logits(short)
    for length in (limit, limit + 1):
        ids = torch.cat([short, view.random_ids(1, length)], dim=1)[:, :length]
        try:
            logits = view.logits(ids)
        except SubjectError as error:
            require(
                length > limit or view.subject.said_longest is None,
                "the model runs at its own longest length",
                fails=f"The model does not run at its own longest length, {length}: {error}",
                where={"length": length},
                remedy="is a table of positions or a mask one too short?",
            )
            continue
        start, wanted = logits[:, : short.shape[1]], expected[:, : logits.shape[1]]
        off = not float((start - wanted).abs().max()) <= view.relation_bound
        if off and is_scaled_with_length(view.subject, length):
            view.subject.note(
                f"over {length} tokens its rotation is slower than over {view.length}"
            )
            not_applicable("the rotation is scaled with the length of the sequence, by design")
        view.same(
            start,
            wanted,
            f"a sequence of {length} begins like a short one",
            fails=f"The first logits of a sequence of {length} tokens are off by {{measured}} "
            "from those of a short one",
            where={"length": length, "longest": limit},
            remedy="what is past the limit must work or be refused, not wrap around or broadcast",
            use="longer" if view.subject.said_longest is not None and length > limit else None,
            blame=partial(leak_of, view),
        )
