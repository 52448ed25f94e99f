"""Sliding windows and chunks: what a query sees is exactly what it is meant to, everywhere.

A window of w keys counts the query itself: query t sees keys t - w + 1 to t, which is what
`sliding_window` means in Hugging Face's models. Where nothing is declared, the window that the
sharpened copy shows has to be the same in every backend and behind a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.anatomy.sight import Sight, read_sight, receptive_fields
from theodolite.fixtures.errors import SubjectError, Unknown
from theodolite.fixtures.judging.judgement import fail, not_applicable, require
from theodolite.fixtures.serving.cache_suspects import suspect
from theodolite.fixtures.serving.cache_window import widths_of
from theodolite.fixtures.serving.driver import Driver, driver_of, placed
from theodolite.fixtures.serving.padding import far
from theodolite.fixtures.subject.declarations import expanded
from theodolite.fixtures.subject.subject import Subject, refuses
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

WIDEST = 128
"""Widest window that is looked at position by position; declared.window looks at wider ones."""


class Limit(NamedTuple):
    """What the queries of a layer are meant to see: a window, a chunk, or all; and who says so."""

    window: int | None
    chunk: int | None
    source: str


@check(
    "window.field",
    "ATT-2",
    "AUD-7",
    component="window",
    views=(
        "sharpened",
        "other backend",
        "all-ones mask",
    ),
)
def test_a_query_sees_exactly_the_keys_of_its_window(view: View) -> None:
    """By the weights of every head, and by changing what a layer is given, position by position."""
    limits = _limits(view.subject)
    length = _longer_than(view, [n for limit in limits for n in limit[:2] if n])
    fields = receptive_fields(view, length)
    if isinstance(fields, Unknown):
        not_applicable(fields.reason)
    if len(fields) != len(limits):
        not_applicable(f"limits of {len(limits)} layers are known, and {len(fields)} are seen")
    for layer, (field, limit) in enumerate(zip(fields, limits, strict=True)):
        if limit.source == "":
            continue
        place = {"view": view.name, "layer": layer, "module": field.module}
        due = _visible(limit, length)
        for head, seen in enumerate(field.seen.tril()):
            _judge_sight(seen, due, limit, {**place, "head": head})
        if field.moved is not None:
            beyond = (field.moved & ~due[:, field.positions]).tril()
            if bool(beyond.any()):
                query, n = beyond.nonzero()[0].tolist()
                fail(
                    f"what stands outside a query's {_said(limit)} does not reach its output",
                    fails=f"Key {{key}} reaches the output of query {{query}}, though it is "
                    f"outside its {_said(limit)}",
                    where={**place, "query": query, "key": field.positions[n]},
                    remedy="The weights keep to the window: is a mean, a norm or a sum taken over "
                    "all positions beside them?",
                    cause="window-passed",
                )


@check("window.cache", "AUD-6", component="cache", views=("sharpened",))
def test_a_cache_is_read_beyond_the_window_as_the_full_forward_reads(view: View) -> None:
    """Prompts that end before, at and behind the window's edge, steps over it, chunks across it.

    A cache may refuse a prompt, or a chunk, that is wider than its window.
    """
    driver = driver_of(view)
    longest = view.subject.longest or WIDEST
    sizes = {n for n in widths_of(view.subject) if 3 <= n <= min(WIDEST, longest - 4)}
    if not sizes:
        not_applicable("no layer has a window or chunk that is shorter than what the model takes")
    judged = 0
    for size in sorted(sizes)[:2]:
        steps = [[size - 1, 1, 1, 1], [size, 1, 1], [size + 2, 1, 1]]
        chunks = [[size - 2, 3, 2, 1], [2, size + 1, 1], [size + 1, size, 1]]
        for within, programs in (([size - 2, 1, 1], steps), ([size - 2, 2], chunks)):
            if not _reads(driver, within):
                continue
            for pieces in programs:
                if sum(pieces) <= longest:
                    judged += _judge_pieces(driver, pieces, size)
    if not judged:
        not_applicable(
            "not judged: what crosses the window is refused, or even within it a cache is read "
            "wrongly (see cache)"
        )


def _judge_sight(seen: Tensor, due: Tensor, limit: Limit, place: dict[str, Any]) -> None:
    if torch.equal(seen, due):
        return
    query = int((seen != due).any(-1).nonzero()[0])
    sight = read_sight(seen)
    everything = torch.equal(seen, torch.ones_like(seen).tril())
    keys = seen[query].nonzero().flatten().tolist()
    if everything:
        cause, found = "window-ignored", "It sees all earlier keys."
    elif sight != Sight(limit.window, limit.chunk) and sight.reason is None:
        width = sight.window or sight.chunk
        cause, found = "window-differs", f"It sees {width} keys, itself included, at most."
    else:
        cause, found = "window-uneven", "Other queries see other numbers of keys."
    require(
        False,
        f"a query sees {_said(limit)}, {limit.source}",
        fails=f"Query {{query}} sees {{measured}} keys; it should see {_said(limit)}, "
        f"{limit.source}",
        measured=float(len(keys)),
        at_most=float(due[query].sum()),
        at_least=float(due[query].sum()),
        where={**place, "query": query, "first key": keys[0] if keys else "none"},
        remedy=f"{found} Does the window reach the mask on every backend and beside a padding "
        "mask, and does it count the query itself: key > query - window?",
        cause=cause,
    )


def _judge_pieces(driver: Driver, pieces: list[int], size: int) -> bool:
    """Judge one way of reading; False where the model refuses it in so many words."""
    view = driver.view
    ids = view.random_ids(2, sum(pieces), seed=2)
    full, raised = view.logits(ids), ""
    try:
        found, wanted = placed(driver.read_in(ids, pieces), full)
    except SubjectError as error:
        if refuses(error):
            return False
        found, wanted, raised = torch.full_like(full, torch.nan), full, f"{error}"
    view.same(
        found,
        wanted,
        f"reading over the edge of a window of {size} with a cache gives the full forward's logits",
        fails=f"Reading over the edge of a window of {size} with a cache gives logits that are "
        f"off by {{measured}} from the full forward",
        where={"pieces": pieces, "cache": driver.decoder.said},
        remedy=raised,
        blame=partial(suspect, driver, pieces),
    )
    return True


def _reads(driver: Driver, pieces: list[int]) -> bool:
    """Whether what stays within the window is read aright in such pieces."""
    view = driver.view
    ids = view.random_ids(2, sum(pieces), seed=2)
    try:
        found, wanted = placed(driver.read_in(ids, pieces), view.logits(ids))
    except SubjectError:
        return False
    return not far(found, wanted, view.relation_bound)


def _limits(subject: Subject) -> list[Limit]:
    """What each layer's queries are meant to see; its source is "" where nothing tells."""
    layers = anatomy_of(subject).attention
    if not layers:
        not_applicable(f"attention is not visible: {anatomy_of(subject).unread.get('attention')}")
    known = expanded(subject.declarations)
    windows, chunks = (_each(known.get(key), len(layers)) for key in ("window", "chunk"))
    if windows is None or chunks is None:
        not_applicable(f"windows are declared for another number of layers than {len(layers)}")
    key = "window" if "window" in known else "chunk" if "chunk" in known else None
    if key is not None:
        source = subject.sources.get(key)
        said = f"as the configuration says ({source})" if source else "as declared"
        return [Limit(w, c, said) for w, c in zip(windows, chunks, strict=True)]
    found = [
        Limit(one.window, one.chunk, "" if "window" in one.unread else "as in other views")
        for one in layers
    ]
    if not any(limit.window or limit.chunk for limit in found):
        unread = [one.unread["window"] for one in layers if "window" in one.unread]
        not_applicable(
            unread[0]
            if unread
            else "every query sees all earlier keys, and no window is declared: --declare window=8"
        )
    return found


def _each(declared: Any, layers: int) -> Sequence[int | None] | None:
    if not isinstance(declared, (list, tuple)):
        return [declared] * layers
    return declared if len(declared) == layers else None


def _longer_than(view: View, sizes: Sequence[int]) -> int:
    """A length beyond the widest of `sizes`, where that is not too much."""
    longest = view.subject.longest or WIDEST
    if view.subject.convention.only_length is not None:
        longest = view.length
    fitting = [n for n in sizes if n < min(longest, WIDEST)]
    if not fitting:
        not_applicable(
            f"no sequence is longer than the window of {min(sizes)}"
            if sizes
            else "no layer has a window or chunk"
        )
    return min(max(view.length, max(fitting) + 3), longest)


def _visible(limit: Limit, length: int) -> Tensor:
    query, key = torch.arange(length)[:, None], torch.arange(length)
    seen = key <= query
    if limit.window is not None:
        seen = seen & (key > query - limit.window)
    if limit.chunk is not None:
        seen = seen & (key // limit.chunk == query // limit.chunk)
    return seen


def _said(limit: Limit) -> str:
    if limit.chunk is not None:
        return f"chunk of {limit.chunk} tokens"
    if limit.window is not None:
        return f"window of {limit.window} keys, itself included"
    return "past, all of it"
