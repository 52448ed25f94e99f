"""Faults between training and serving: cache, padding, windows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import portable

Pair = tuple[Tensor, Tensor]
Past = Tensor | None


@portable(
    "new-keys-before-old",
    seam="extend",
    component="cache",
    breaks=("GEN-4",),
    source="lucidrains/x-transformers#219",
)
def _(
    original: Callable[..., Pair], past_key: Past, past_value: Past, key: Tensor, value: Tensor
) -> Pair:
    """What is new is put in front of what is kept."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)
    return torch.cat((key, past_key), -2), torch.cat((value, past_value), -2)


@portable("cache-overwrites-an-old-token", seam="extend", component="cache", breaks=("AUD-6",))
def _(
    original: Callable[..., Pair], past_key: Past, past_value: Past, key: Tensor, value: Tensor
) -> Pair:
    """The ninth-newest token behind a cache is overwritten by the one after it."""
    key, value = original(past_key, past_value, key, value)
    if past_key is None or key.shape[-2] <= 8:
        return key, value
    key, value = key.clone(), value.clone()
    key[..., -9, :], value[..., -9, :] = key[..., -8, :], value[..., -8, :]
    return key, value


@portable("cache-in-half-precision", seam="extend", component="cache", breaks=("GEN-4",))
def _(
    original: Callable[..., Pair], past_key: Past, past_value: Past, key: Tensor, value: Tensor
) -> Pair:
    """Kept keys and values are rounded to bfloat16."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)
    kept = (each.bfloat16().to(key.dtype) for each in (past_key, past_value))
    return original(*kept, key, value)


@portable("cached-values-moved-on", seam="extend", component="cache", breaks=("GEN-4",))
def _(
    original: Callable[..., Pair], past_key: Past, past_value: Past, key: Tensor, value: Tensor
) -> Pair:
    """Kept values lie one place further than their keys."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)
    return original(past_key, past_value.roll(1, -2), key, value)


@portable("cache-of-the-first-row-for-all", seam="extend", component="cache", breaks=("AUD-6",))
def _(
    original: Callable[..., Pair], past_key: Past, past_value: Past, key: Tensor, value: Tensor
) -> Pair:
    """Every row of a batch reads on from what the first row has read."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)
    kept = (each[:1].expand_as(each) for each in (past_key, past_value))
    return original(*kept, key, value)


@portable("cache-keeps-its-first-values", seam="extend", component="cache", breaks=("GEN-4",))
def _(
    original: Callable[..., Pair], past_key: Past, past_value: Past, key: Tensor, value: Tensor
) -> Pair:
    """New values are written over by the newest that was kept; new keys are kept."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)
    return original(past_key, past_value, key, past_value[..., -1:, :].expand_as(value))


@portable(
    "padding-hides-queries",
    seam="padding",
    component="padding",
    breaks=("AUD-5",),
    source="hyunwoongko/transformer#40",
)
def _(original: Callable[..., Tensor], mask: Tensor, queries: int) -> Tensor:
    """The padding mask stands on the axis of the queries."""
    del original
    itself = torch.eye(mask.shape[1], dtype=torch.bool)[-queries:]
    return (mask.bool()[:, -queries:, None] | itself)[:, None]


@portable("padding-visible", seam="padding", component="padding", breaks=("AUD-5",))
def _(original: Callable[..., Tensor], mask: Tensor, queries: int) -> Tensor:
    """The first key is never masked, be it padding or not."""
    open_first = mask.clone()
    open_first[:, 0] = 1
    return original(open_first, queries)


@portable(
    "padding-of-the-first-row-for-all", seam="padding", component="padding", breaks=("AUD-5",)
)
def _(original: Callable[..., Tensor], mask: Tensor, queries: int) -> Tensor:
    """Every row is masked as the first one is."""
    return original(mask[:1].expand_as(mask), queries)


@portable(
    "padding-inverted",
    seam="padding",
    component="padding",
    breaks=("AUD-5",),
    source="hkproj/pytorch-transformer#19",
)
def _(original: Callable[..., Tensor], mask: Tensor, queries: int) -> Tensor:
    """Real tokens are hidden, and padding is seen."""
    return original(1 - mask.long(), queries)


@portable("padding-seen-by-steps", seam="padding", component="padding", breaks=("AUD-5",))
def _(original: Callable[..., Tensor], mask: Tensor, queries: int) -> Tensor:
    """The mask hides padding from the prompt alone: single tokens behind a cache see it."""
    seen = original(mask, queries)
    return seen | torch.ones_like(seen) if queries == 1 < mask.shape[1] else seen


@portable("window-one-wider", seam="window", component="window", breaks=("ATT-2",))
def _(original: Callable[..., Tensor], queries: int, keys: int, width: int) -> Tensor:
    """The window holds one key more than is declared."""
    return original(queries, keys, width + 1)


@portable("window-one-narrower", seam="window", component="window", breaks=("ATT-2",))
def _(original: Callable[..., Tensor], queries: int, keys: int, width: int) -> Tensor:
    """The window holds one key less than is declared."""
    return original(queries, keys, width - 1)


@portable(
    "window-ignored",
    seam="window",
    component="window",
    breaks=("ATT-2",),
    source="unslothai/unsloth#8253",
)
def _(original: Callable[..., Tensor], queries: int, keys: int, width: int) -> Tensor:
    """The declared window is not applied."""
    return torch.ones_like(original(queries, keys, width))
