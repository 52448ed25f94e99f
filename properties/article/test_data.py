"""DATA: characters to ids, two parts of one text, windows and their shifted targets."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st

from theodolite.fixtures.judging.judgement import judge, require
from theodolite.fixtures.oracles.strategies import drawn, seeds
from theodolite.properties import claim
from theodolite.reference import data

TEXTS = st.one_of(
    st.text("aAbB é,.\r\n", min_size=1, max_size=200),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=200),
)
"""Texts in which characters recur, in both cases, and texts of anything at all."""

FALSE_ALARM = 1e-8
"""Chance that a correct sampler is accused of never drawing some window."""


@claim("DATA-1")
@drawn(max_examples=60, text=TEXTS)
def test_decoding_gives_the_encoded_text_back(text: str) -> None:
    tokenizer = data.CharacterTokenizer(text)
    back = tokenizer.decode(tokenizer.encode(text))
    require(
        back == text,
        "decoding the ids of a text gives the text back",
        where={"text": repr(text), "decoded": repr(back)},
        remedy="do encode and decode use one table, read in the two directions?",
    )


@claim("DATA-1")
@drawn(max_examples=60, text=TEXTS)
def test_the_vocabulary_is_the_sorted_set_of_characters(text: str) -> None:
    tokenizer = data.CharacterTokenizer(text)
    expected = [sorted(set(text)).index(symbol) for symbol in text]
    require(
        len(tokenizer) == len(set(text)),
        "the vocabulary holds each distinct character once",
        where={"text": repr(text), "size": len(tokenizer)},
    )
    judge(
        tokenizer.encode(text),
        torch.tensor(expected),
        "a character's id is its rank among the sorted characters",
        axes=("index",),
        where={"text": repr(text)},
        remedy="a vocabulary in another order cannot read the checkpoints of this one",
    )


@claim("DATA-1")
@drawn(max_examples=60, length=st.integers(2, 3000))
def test_the_split_is_ninety_to_ten_without_overlap(length: int) -> None:
    """Every id of the text falls in exactly one part, and the order is kept."""
    train, validation = data.split(torch.arange(length), 0.9)
    judge(
        torch.cat([train, validation]),
        torch.arange(length),
        "the two parts put end to end are the text, nothing twice and nothing lost",
        axes=("index",),
        remedy="both parts should be cut at one border",
    )
    judge(
        len(train),
        9 * length // 10,
        "nine tenths of the text are for training",
        where={"length": length},
    )


@claim("DATA-2")
@drawn(
    max_examples=40,
    seed=seeds(),
    context=st.integers(1, 17),
    windows=st.integers(1, 40),
    batch=st.integers(1, 6),
)
def test_the_target_is_the_input_shifted_by_one(
    seed: int, context: int, windows: int, batch: int
) -> None:
    """On a text without repetitions, each id names its place, so windows can be located."""
    generator = torch.Generator().manual_seed(seed)
    text = torch.randperm(context + windows, generator=generator)
    inputs, targets = data.draw_batch(text, batch, context, generator)
    place = torch.argsort(text)[inputs]
    judge(
        place,
        place[:, :1].expand(batch, context) + torch.arange(context),
        "an input is a window of consecutive ids inside the data",
        axes=("row", "position"),
        remedy="may a window start where it runs past the end?",
    )
    judge(
        torch.argsort(text)[targets],
        place + 1,
        "the target at each position is the id that follows the input's in the data",
        axes=("row", "position"),
        remedy="shift by one, once; a target equal to the input teaches copying",
    )


@claim("DATA-2")
@drawn(max_examples=20, seed=seeds(), context=st.integers(1, 9), windows=st.integers(1, 40))
def test_every_window_is_reachable_the_last_one_too(seed: int, context: int, windows: int) -> None:
    """Statistical: n uniform draws miss one of W windows with chance at most W·exp(-n/W).

    With n = W·ln(W / 1e-8) draws that is 1e-8 an example, 2e-7 over twenty.
    """
    draws = math.ceil(windows * math.log(windows / FALSE_ALARM))
    generator = torch.Generator().manual_seed(seed)
    inputs, _ = data.draw_batch(torch.arange(context + windows), draws, context, generator)
    seen = torch.zeros(context + windows)
    seen[inputs[:, 0]] = 1
    judge(
        seen,
        (torch.arange(context + windows) < windows).double(),
        "each window that lies inside the data is drawn sooner or later, and no other",
        axes=("start",),
        where={"windows": windows, "draws": draws},
        remedy="N ids hold N - T windows of T + 1; is the upper end of the draw exclusive already?",
    )
