"""AUD-6 and GEN-4 on a subject: its own cache gives the logits of the full forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import example
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import PropertyFailure, not_applicable
from theodolite.fixtures.oracles.strategies import drawn
from theodolite.fixtures.serving.cache_suspects import suspect
from theodolite.fixtures.serving.driver import Driver, driver_of, placed
from theodolite.fixtures.serving.padding import far
from theodolite.fixtures.subject.subject import refuses
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_LONG = 48

OPERATIONS = st.one_of(
    st.tuples(st.just("read"), st.integers(0, 1), st.sampled_from([1, 2, 3, 5])),
    st.tuples(st.just("begin again"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("reorder"), st.integers(0, 1), st.integers(1, 3)),
    st.tuples(st.just("crop"), st.integers(0, 1), st.integers(1, 4)),
)
"""What can be done to one of two caches: (what, which, how much)."""

EVERYTHING = [
    ("read", 0, 5), ("read", 1, 3), ("read", 0, 1), ("reorder", 0, 1), ("read", 0, 1),
    ("read", 1, 1), ("crop", 0, 2), ("read", 0, 1), ("crop", 1, 1), ("read", 1, 1),
    ("begin again", 0, 0), ("read", 0, 3), ("read", 0, 1), ("read", 1, 1),
]  # fmt: skip
"""One program with every operation, always run."""


@pytest.fixture
def driver(view: View) -> Driver:
    """The view's own way to decode with a cache."""
    return driver_of(view)


@pytest.fixture
def sound(driver: Driver) -> Driver:
    """A driver that reads one batch aright: then what goes wrong lies between batches."""
    view = driver.view
    fresh = replace(driver, model=view.copy()) if driver.decoder.inside else driver
    for kind, pieces in (("steps", [5] + [1] * 8), ("chunks", [5, 2, 3, 2, 1])):
        fitting = _fitting(pieces, view.length)
        ids = view.random_ids(driver.batch, sum(fitting), seed=2)
        try:
            found, wanted = placed(fresh.read_in(ids, fitting), view.logits(ids))
        except (SubjectError, PropertyFailure):
            found = wanted = torch.full((1,), torch.nan)
        if far(found, wanted, view.relation_bound) and (kind == "steps" or _accepts(fresh)):
            not_applicable(
                f"not judged: a single batch is already decoded wrongly (see cache.{kind})"
            )
    return driver


def _accepts(driver: Driver) -> bool:
    """Whether a chunk behind a cache is read at all."""
    reader = driver.begin()
    reader.read(driver.view.random_ids(driver.batch, 5))
    try:
        reader.read(driver.view.random_ids(driver.batch, 2))
    except SubjectError:
        return False
    return True


@check(
    "cache.steps",
    "AUD-6",
    "GEN-4",
    component="cache",
    views=(
        "as given",
        "sharpened",
    ),
)
def test_reading_token_by_token_gives_the_logits_of_the_full_forward(driver: Driver) -> None:
    """A prompt of one token, and one of several; then one token at a time."""
    length = driver.view.length
    for prompt in (1, max(1, length // 2)):
        _judge_pieces(driver, [prompt] + [1] * (length - prompt))


@check(
    "cache.chunks",
    "AUD-6",
    "GEN-4",
    component="cache",
    views=(
        "as given",
        "sharpened",
    ),
)
def test_reading_in_chunks_gives_the_logits_of_the_full_forward(driver: Driver) -> None:
    """Chunks of 2, 3 and 5 tokens behind a prompt, and single tokens after them."""
    for pieces in ([2, 3, 5, 1, 2], [5, 2, 2, 3, 1], [1, 5, 5, 2]):
        _judge_pieces(driver, _fitting(pieces, driver.view.length))


@check("cache.long", "AUD-6", "GEN-4", component="cache", views=("sharpened",), budget="standard")
def test_a_long_prompt_is_read_on_like_a_short_one(driver: Driver) -> None:
    """Beyond every window of a small model, up to its longest input; that it may refuse at once."""
    view = driver.view
    length = min(view.subject.longest or _LONG, _LONG)
    if length <= view.length or not _takes(view, length):
        not_applicable(f"the model takes no more than {min(length, _LONG - 1)} tokens")
    _judge_pieces(driver, [3] + [1] * (length - 3))
    _judge_pieces(driver, [length - 4, 1, 1, 1, 1], may_refuse=True)


@check("cache.turns", "AUD-6", "GEN-4", component="cache", views=("sharpened",), budget="standard")
def test_two_batches_read_in_turn_know_nothing_of_each_other(sound: Driver) -> None:
    """A cache is used and left; then two are read in turn, or, inside a model, one by one."""
    driver, view, length = sound, sound.view, sound.view.length
    texts = [view.random_ids(driver.batch, seed=seed) for seed in (3, 4)]
    driver.read_in(view.random_ids(driver.batch, seed=5), [length - 1, 1])
    pieces: list[list[tuple[int, Tensor]]] = [[], []]
    if driver.decoder.inside:
        for text, part in zip(texts, pieces, strict=True):
            part.extend(driver.read_in(text, [length - 3, 1, 1, 1]))
    else:
        readers = [driver.begin(), driver.begin()]
        for chunk in (slice(0, length - 3), *(slice(t, t + 1) for t in range(length - 3, length))):
            for reader, text, part in zip(readers, texts, pieces, strict=True):
                logits = reader.read(text[:, chunk])
                part.append((reader.state.read - logits.shape[1], logits))
    for text, part in zip(texts, pieces, strict=True):
        found, wanted = placed(part, view.logits(text))
        view.same(
            found,
            wanted,
            "a fresh cache knows nothing of those used before it or beside it",
            fails="A fresh cache gives logits that are off by {measured} after, or beside, "
            "another cache: it still holds something of it",
            where={"cache": driver.decoder.said},
            remedy="is the cache (its tensors, its write index, its length) shared between "
            "sequences, or not emptied when a new one begins?",
            cause="cache-not-reset",
        )


@check("cache.programs", "AUD-6", component="cache", views=("sharpened",), budget="standard")
@example(program=EVERYTHING)
@drawn(max_examples=8, program=st.lists(OPERATIONS, min_size=2, max_size=10))
def test_any_sequence_of_operations_gives_the_logits_of_the_full_forward(
    sound: Driver, program: list[tuple[str, int, int]]
) -> None:
    """Two caches, read, begun again, reordered and cut back in any order."""
    _run(sound, program)


def _takes(view: View, length: int) -> bool:
    """Whether the full forward takes so many tokens, where nothing says how many it takes."""
    try:
        view.logits(view.random_ids(1, length))
    except SubjectError:
        return view.subject.longest is not None
    return True


def _run(driver: Driver, program: Sequence[tuple[str, int, int]]) -> None:
    view, count = driver.view, 1 if driver.decoder.inside else 2
    rows = torch.arange(driver.batch)
    texts = [view.random_ids(driver.batch, seed=6 + slot) for slot in range(count)]
    full = [view.logits(text) for text in texts]
    orders, readers = [rows] * count, [driver.begin() for _ in range(count)]
    done: list[str] = []
    for what, which, much in program:
        slot = which % count
        reader, order = readers[slot], orders[slot]
        done.append(f"{what} {much} in {slot}" if much else f"{what} {slot}")
        if what == "begin again":
            readers[slot], orders[slot] = driver.begin(), rows
        elif what == "reorder" and reader.state.read:
            if reader.reorder(rows.roll(much)):
                orders[slot] = order[rows.roll(much)]
        elif what == "crop" and reader.state.read > much:
            reader.crop(reader.state.read - much)
        elif what == "read" and reader.state.read + much <= view.length:
            before = reader.state.read
            try:
                logits = reader.read(texts[slot][order][:, before:][:, :much])
            except SubjectError:
                if much == 1 or before == 0:
                    raise
                readers[slot], orders[slot] = driver.begin(), rows  # chunks are refused
                continue
            begin = reader.state.read - logits.shape[1]
            view.same(
                logits,
                full[slot][order.to(full[slot].device)][:, begin : reader.state.read],
                "after any operations a cache gives the logits of the full forward",
                fails="After these operations the cache gives logits that are off by {measured} "
                "from the full forward: {after}",
                where={"after": ", ".join(done)},
                remedy="does each operation change keys, values, positions and length alike, in "
                "every layer?",
                cause="cache-operation",
            )
        if reader.state.read == 0:
            orders[slot] = rows


def _fitting(pieces: Sequence[int], length: int) -> list[int]:
    """Those of `pieces` that fit into `length` tokens."""
    kept: list[int] = []
    for piece in pieces:
        if sum(kept) + piece <= length:
            kept.append(piece)
    return kept


def _judge_pieces(driver: Driver, pieces: list[int], *, may_refuse: bool = False) -> None:
    view = driver.view
    ids = view.random_ids(driver.batch, sum(pieces), seed=2)
    full = view.logits(ids)
    try:
        read = driver.read_in(ids, pieces)
    except SubjectError as error:
        if may_refuse and refuses(error):
            return
        if max(pieces[1:], default=1) > 1:
            not_applicable(f"chunks behind a cache are refused: {error}")
        view.require(
            False,
            "the model reads single tokens behind a cache",
            fails=f"Reading a single token behind the cache raises: {error}",
            where={"pieces": pieces, "cache": driver.decoder.said},
            remedy="is a shape, a mask or a table made for whole sequences only?",
            cause="cache-refused",
        )
    found, wanted = placed(read, full)
    view.same(
        found,
        wanted,
        "decoding with a cache gives the logits of the full forward",
        fails="Decoding with a cache gives logits that are off by {measured} from the full forward",
        where={"pieces": pieces, "cache": driver.decoder.said},
        blame=partial(suspect, driver, pieces),
    )
