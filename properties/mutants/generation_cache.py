"""Faults of the decode cache, and of positions and masks behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, generation, model
from theodolite.reference.cache import KeyValueCache, LayerCache
from theodolite.reference.model import GPT


def _count_positions(patch: Patch, first: Callable[[int], int]) -> None:
    """Count a chunk's positions from ``first(past)``."""

    def count(ids: Tensor, past: int, attention_mask: Tensor | None) -> Tensor:  # noqa: ARG001
        return first(past) + torch.arange(ids.shape[1])

    patch.value(model, "_count_positions", count)


@mutant("cache-kept-past-the-context", component="cache", breaks=("GEN-2", "GEN-4"))
def _(patch: Patch) -> None:
    """The cache goes on growing when the context is full, so old tokens are still read."""

    def generate(
        gpt: GPT,
        ids: Tensor,
        new_tokens: int,
        *,
        context: int | None = None,
        generator: torch.Generator | None = None,
        use_cache: bool = False,
        **_: Any,
    ) -> Tensor:
        if not use_cache:
            return original(gpt, ids, new_tokens, context=context, generator=generator)
        cache, unread = gpt.new_cache(), ids if context is None else ids[:, -context:]
        with torch.no_grad():
            for _step in range(new_tokens):
                logits = gpt(unread, cache=cache)[:, -1]
                unread = generation.sample(logits, generator=generator)
                ids = torch.cat((ids, unread), dim=1)
        return ids

    original = generation.generate
    patch.replace(original, generate)


@mutant(
    "new-keys-before-old",
    component="cache",
    breaks=("GEN-4",),
    source="lucidrains/x-transformers#219",
)
def _(patch: Patch) -> None:
    """New keys and values are put in front of those in the cache."""

    def extend(self: LayerCache, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if self.key is not None and self.value is not None:
            key = torch.cat((key, self.key), dim=-2)
            value = torch.cat((value, self.value), dim=-2)
        self.key, self.value = key, value
        return key, value

    patch.method(LayerCache, "extend", extend)


@mutant(
    "decoding-starts-at-position-zero",
    component="position",
    breaks=("GEN-4",),
    source="keras-team/keras-hub#1544",
)
def _(patch: Patch) -> None:
    """Every chunk counts its positions from 0."""
    _count_positions(patch, lambda _past: 0)


@mutant("offset-counted-twice", component="position", breaks=("GEN-4",), source="skyzh/tiny-llm#46")
def _(patch: Patch) -> None:
    """The length of the cache is added twice."""
    _count_positions(patch, lambda past: 2 * past)


@mutant("offset-one-off", component="position", breaks=("GEN-4",))
def _(patch: Patch) -> None:
    """What follows a cache stands one position too far on."""
    _count_positions(patch, lambda past: past + (past > 0))


@mutant(
    "triangle-lined-up-with-the-first-key",
    component="mask",
    breaks=("GEN-4",),
    source="time-series-foundation-models/lag-llama#81",
)
def _(patch: Patch) -> None:
    """With a cache the first new query sees the first key alone, as if it stood at 0."""

    def causal_mask(
        queries: int, keys: int | None = None, *, device: torch.device | None = None
    ) -> Tensor:
        return torch.ones(queries, keys or queries, dtype=torch.bool, device=device).tril()

    patch.replace(attention.causal_mask, causal_mask)


@mutant("chunk-sees-itself-whole", component="mask", breaks=("GEN-4",))
def _(patch: Patch) -> None:
    """Behind a cache no mask is put on, so tokens of one chunk see later ones."""
    original = attention.causal_mask

    def causal_mask(
        queries: int, keys: int | None = None, *, device: torch.device | None = None
    ) -> Tensor:
        visible = original(queries, keys, device=device)
        return visible if keys is None or keys == queries else torch.ones_like(visible)

    patch.replace(original, causal_mask)


@mutant(
    "cache-never-emptied",
    component="cache",
    breaks=("GEN-4",),
    source="Lightning-AI/litgpt#1596",
)
def _(patch: Patch) -> None:
    """A model hands out one and the same cache every time."""
    caches: dict[int, KeyValueCache] = {}

    def new_cache(self: GPT) -> KeyValueCache:
        if id(self) not in caches:
            caches.clear()
            caches[id(self)] = KeyValueCache(self.config.layers)
        return caches[id(self)]

    patch.method(GPT, "new_cache", new_cache)


@mutant("cache-in-half-precision", component="cache", breaks=("GEN-4",))
def _(patch: Patch) -> None:
    """Keys and values are rounded to bfloat16 when they are stored."""
    original = LayerCache.extend

    def extend(self: LayerCache, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        rounded = (part.bfloat16().to(part.dtype) for part in (key, value))
        return original(self, *rounded)

    patch.method(LayerCache, "extend", extend)


@mutant("cached-values-moved-on", component="cache", breaks=("GEN-4",))
def _(patch: Patch) -> None:
    """Cached values have moved on by one token against their keys."""
    original = LayerCache.extend

    def extend(self: LayerCache, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if self.value is not None:
            self.value = self.value.roll(1, dims=-2)
        return original(self, key, value)

    patch.method(LayerCache, "extend", extend)
