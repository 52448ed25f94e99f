"""Faults between training and serving: a cache, padding, positions, the loss of a model."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import model
from theodolite.reference.cache import LayerCache
from theodolite.reference.model import GPT


@mutant("cache-loses-its-oldest-token", component="cache", breaks=("AUD-6",))
def _(patch: Patch) -> None:
    """The oldest key and value are dropped when a ninth token comes, and nothing else moves."""
    original = LayerCache.extend

    def extend(self: LayerCache, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        key, value = original(self, key, value)
        self.key, self.value = key[..., -8:, :], value[..., -8:, :]
        return self.key, self.value

    patch.method(LayerCache, "extend", extend)


@mutant("cache-shared-by-all", component="cache", breaks=("AUD-6",))
def _(patch: Patch) -> None:
    """A fresh cache goes on where the last one stood."""
    held: dict[int, Any] = {}
    original = GPT.new_cache

    def new_cache(self: GPT) -> Any:
        return held.setdefault(id(self), original(self))

    patch.method(GPT, "new_cache", new_cache)


@mutant(
    "empty-rows",
    component="padding",
    breaks=("AUD-5",),
    source="huggingface/transformers#17306",
)
def _(patch: Patch) -> None:
    """Padding sees nothing at all, not even itself, so its rows are NaN."""

    def visible(attention_mask: Tensor, length: int) -> Tensor:
        return attention_mask.bool()[:, None, None].expand(-1, 1, length, -1)

    patch.replace(model._visible_tokens, visible)


@mutant("one-cache-for-all", component="cache", breaks=("AUD-6",))
def _(patch: Patch) -> None:
    """A new cache is the old one, emptied: two sequences read in turn write into one."""
    held: dict[int, Any] = {}
    original = GPT.new_cache

    def new_cache(self: GPT) -> Any:
        cache = held.setdefault(id(self), original(self))
        cache.layers[:] = original(self).layers
        return cache

    patch.method(GPT, "new_cache", new_cache)
