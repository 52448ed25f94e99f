"""Faults of the decode cache, and of positions and masks behind it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import generation
from theodolite.reference.cache import KeyValueCache
from theodolite.reference.model import GPT


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
