"""Faults between training and serving: a cache, padding, positions, the loss of a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import loss, model
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


@mutant("chunk-counted-once", component="position", breaks=("AUD-6",))
def _(patch: Patch) -> None:
    """Every token of a chunk behind a cache stands at the first one's position."""

    def count(ids: Tensor, past: int, attention_mask: Tensor | None) -> Tensor:
        if attention_mask is not None or past == 0:
            return original(ids, past, attention_mask)
        return torch.full((ids.shape[1],), past)

    original = model._count_positions
    patch.replace(original, count)


@mutant("padding-visible", component="padding", breaks=("AUD-5",))
def _(patch: Patch) -> None:
    """The first key is never masked, be it padding or not."""
    original = model._visible_tokens

    def visible(attention_mask: Tensor, length: int) -> Tensor:
        open_first = attention_mask.clone()
        open_first[:, 0] = 1
        return original(open_first, length)

    patch.replace(original, visible)


@mutant(
    "padding-hides-queries",
    component="padding",
    breaks=("AUD-5",),
    source="hyunwoongko/transformer#40",
)
def _(patch: Patch) -> None:
    """The padding mask stands on the axis of the queries."""

    def visible(attention_mask: Tensor, length: int) -> Tensor:
        keys = attention_mask.shape[1]
        itself = torch.eye(keys, dtype=torch.bool)[-length:]
        return (attention_mask.bool()[:, -length:, None] | itself)[:, None]

    patch.replace(model._visible_tokens, visible)


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


@mutant(
    "loss-shifted-twice",
    component="loss",
    breaks=("AUD-10",),
    source="huggingface/transformers#47394",
)
def _(patch: Patch) -> None:
    """The loss shifts twice what it is given."""

    def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
        return original(logits[:, :-2], targets[:, 2:], ignore_index)

    original = loss.token_loss
    patch.replace(original, token_loss)


@mutant("loss-mean-over-rows", component="loss", breaks=("AUD-10",))
def _(patch: Patch) -> None:
    """Each row counts alike, however many of its targets count."""

    def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
        if logits.dim() != 3:
            return original(logits, targets, ignore_index)
        rows = [original(*pair, ignore_index) for pair in zip(logits, targets, strict=True)]
        return torch.stack(rows).mean()

    original = loss.token_loss
    patch.replace(original, token_loss)


@mutant("positions-from-one", component="position", breaks=("POS-3",))
def _(patch: Patch) -> None:
    """Positions that are not given are counted from the second on, with a gap behind the first."""

    def count(ids: Tensor, past: int, attention_mask: Tensor | None) -> Tensor:
        positions = original(ids, past, attention_mask)
        return positions + (positions > 0).long()

    original = model._count_positions
    patch.replace(original, count)
