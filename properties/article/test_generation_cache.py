"""GEN-4: decoding with a cache, held against the full forward."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge
from theodolite.fixtures.oracles.reference_stream import (
    random_ids,
    record_generation,
    small_config,
    small_gpt,
)
from theodolite.fixtures.oracles.strategies import drawn, seeds
from theodolite.properties import claim
from theodolite.reference import GPT

NOISE = 256 * 2.0**-53
"""Of a small model in float64, relative to its largest logit: some hundreds of roundings."""

VARIANTS = st.sampled_from(
    [
        {},
        {"kv_heads": 2},
        {"qk_norm": True, "rotary_pairing": "half"},
        {"fused": True},
        {"positions": "sinusoidal", "placement": "post"},
        {"style": "gpt2"},
    ]
)
"""What a cache has to do with: grouped heads, rotated and normed keys, absolute positions."""


@claim("GEN-4")
@drawn(
    max_examples=30,
    variant=VARIANTS,
    chunks=st.lists(st.sampled_from([1, 2, 3, 5, 8]), min_size=2, max_size=6),
    seed=seeds(),
)
def test_reading_in_chunks_gives_the_logits_of_the_full_forward(
    variant: dict[str, Any], chunks: list[int], seed: int
) -> None:
    """Any first chunk, any cut of the rest; rows and positions of all of them."""
    shape = small_config(**({"context": 64} | variant))
    model = small_gpt(shape, seed)
    ids = random_ids(shape, 2, sum(chunks), seed)
    _judge_logits(_in_chunks(model, ids, chunks), model(ids), where={"chunks": chunks} | variant)


@claim("GEN-4")
@drawn(max_examples=10, variant=VARIANTS, seed=seeds())
def test_two_caches_of_one_model_know_nothing_of_each_other(
    variant: dict[str, Any], seed: int
) -> None:
    """Read in turn, one token each, after a third cache has been used and left."""
    shape = small_config(**variant)
    model = small_gpt(shape, seed)
    texts = [random_ids(shape, 2, 7, seed + number) for number in range(2)]
    _in_chunks(model, texts[0], [5, 2])
    caches = [model.new_cache() for _ in texts]
    parts: list[list[Tensor]] = [[], []]
    for place in range(7):
        for ids, cache, part in zip(texts, caches, parts, strict=True):
            part.append(model(ids[:, place : place + 1], cache=cache))
    for number, (ids, part) in enumerate(zip(texts, parts, strict=True)):
        _judge_logits(torch.cat(part, 1), model(ids), where={"cache": number} | variant)


@claim("GEN-4")
@drawn(
    max_examples=20,
    variant=VARIANTS,
    length=st.sampled_from([3, 1, 12]),
    context=st.sampled_from([None, 6]),
    seed=seeds(),
)
def test_generation_with_a_cache_writes_what_it_writes_without(
    variant: dict[str, Any], length: int, context: int | None, seed: int
) -> None:
    """The same logits at every step, also once the context is full; twice with one model."""
    shape = small_config(**variant)
    model, prompt = small_gpt(shape, seed), random_ids(shape, 2, length, seed)
    plain, cached, again = (
        record_generation(
            model,
            prompt,
            9,
            context=context,
            generator=torch.Generator().manual_seed(seed),
            use_cache=use_cache,
        )
        for use_cache in (False, True, True)
    )
    where = {"prompt": length, "context": context} | variant
    for found in (cached, again):
        _judge_logits(found.logits, plain.logits, where=where, axes=("step", "row", "token"))
        judge(found.ids, plain.ids, "a cache changes no token", where=where)


def _in_chunks(model: GPT, ids: Tensor, chunks: list[int]) -> Tensor:
    cache = model.new_cache()
    return torch.cat(
        [model(chunk, cache=cache) for chunk in torch.split(ids, chunks, dim=1)], dim=1
    )


def _judge_logits(
    found: Tensor,
    expected: Tensor,
    *,
    where: dict[str, Any],
    axes: tuple[str, ...] = ("row", "position", "token"),
) -> None:
    """Hold cached logits against those of the full forward."""
    judge(
        found,
        expected,
        "decoding with a cache gives the logits of the full forward",
        bound=NOISE * float(expected.detach().abs().max()),
        axes=axes,
        where=where,
        remedy="positions count on from the cache, old keys stand first, the mask is lined up "
        "with the last key",
    )
