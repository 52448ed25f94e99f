"""Faults of the causal mask."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import portable


@portable(
    "mask-transposed",
    seam="triangle",
    component="mask",
    breaks=("ATT-4", "AUD-2"),
    source="pytorch/examples#649",
)
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """Each position sees itself and what comes after it."""
    del original
    return torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries)


@portable("mask-missing", seam="triangle", component="mask", breaks=("ATT-4", "AUD-2"))
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """Every position sees every other."""
    del original
    return torch.ones(queries, keys, dtype=torch.bool)


@portable("mask-shows-the-next", seam="triangle", component="mask", breaks=("ATT-2", "AVG-3"))
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """The triangle reaches one position too far."""
    del original
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries + 1)


@portable("mask-in-blocks-of-four", seam="triangle", component="mask", breaks=("ATT-4", "AUD-2"))
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """Positions of one block of four see each other, the later ones too."""
    del original
    block = torch.arange(keys) // 4
    return block[None] <= block[keys - queries :, None]


@portable("mask-shows-the-last-key", seam="triangle", component="mask", breaks=("ATT-4", "AUD-2"))
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """The last column is left open: everybody sees the last token."""
    visible: Tensor = original(queries, keys).clone()
    visible[:, -1] = True
    return visible


@portable("past-hidden-but-the-first", seam="triangle", component="attention", breaks=("ATT-5",))
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """Each position sees itself and the first, and nothing between."""
    itself = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries)
    itself[:, 0] = True
    seen: Tensor = itself & original(queries, keys)
    return seen


@portable(
    "triangle-lined-up-with-the-first-key",
    seam="triangle",
    component="mask",
    breaks=("GEN-4",),
    source="time-series-foundation-models/lag-llama#81",
    needs=("cache",),
)
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """Behind a cache the first new query sees the first key alone, the second two, and so on."""
    del original
    return torch.ones(queries, keys, dtype=torch.bool).tril()


@portable(
    "chunk-sees-itself-whole",
    seam="triangle",
    component="mask",
    breaks=("GEN-4",),
    needs=("cache",),
)
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """Tokens that are read together behind a cache see each other, the later ones too."""
    if keys == queries:
        visible: Tensor = original(queries, keys)
        return visible
    return torch.ones(queries, keys, dtype=torch.bool)
