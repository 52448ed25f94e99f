"""Faults between training and serving: padding, windows, the cache of a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.places import Padding, Window, padding, window
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference import model
from theodolite.reference.cache import LayerCache
from theodolite.reference.model import GPT


@mutant("cache-loses-its-oldest-token", "AUD-6", "cache.long", component="cache")
def _(patch: Patch) -> None:
    """The oldest key and value are dropped when a ninth token comes, and nothing else moves."""
    original = LayerCache.extend

    def extend(self: LayerCache, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        key, value = original(self, key, value)
        self.key, self.value = key[..., -8:, :], value[..., -8:, :]
        return self.key, self.value

    patch.method(LayerCache, "extend", extend)


@mutant("cache-shared-by-all", "AUD-6 GEN-4", "cache.long", component="cache")
def _(patch: Patch) -> None:
    """A fresh cache goes on where the last one stood."""
    held: dict[int, Any] = {}
    original = GPT.new_cache

    def new_cache(self: GPT) -> Any:
        return held.setdefault(id(self), original(self))

    patch.method(GPT, "new_cache", new_cache)


@mutant(
    "empty-rows",
    "AUD-5",
    "padding.finite",
    component="padding",
    source="huggingface/transformers#17306",
)
def _(patch: Patch) -> None:
    """Padding sees nothing at all, not even itself, so its rows are NaN."""

    def visible(attention_mask: Tensor, length: int) -> Tensor:
        return attention_mask.bool()[:, None, None].expand(-1, 1, length, -1)

    patch.replace(model._visible_tokens, visible)


@mutant("one-cache-for-all", "AUD-6", "cache.turns cache.programs", component="cache")
def _(patch: Patch) -> None:
    """A new cache is the old one, emptied: two sequences read in turn write into one."""
    held: dict[int, Any] = {}
    original = GPT.new_cache

    def new_cache(self: GPT) -> Any:
        cache = held.setdefault(id(self), original(self))
        cache.layers[:] = original(self).layers
        return cache

    patch.method(GPT, "new_cache", new_cache)


# -- in every host that has the seam ---------------------------------------------------------------


@padding("padding-hides-queries", "AUD-5", "padding.hides", source="hyunwoongko/transformer#40")
def _(own: Padding) -> Tensor:
    """The padding mask stands on the axis of the queries."""
    itself = torch.eye(own.mask.shape[1], dtype=torch.bool)[-own.queries :]
    return (own.mask.bool()[:, -own.queries :, None] | itself)[:, None]


@padding("padding-visible", "AUD-5", "padding.alone")
def _(own: Padding) -> Tensor:
    """The first key is never masked, be it padding or not."""
    open_first = own.mask.clone()
    open_first[:, 0] = 1
    return own(mask=open_first)


@padding("padding-of-the-first-row-for-all", "AUD-5", "padding.alone padding.content")
def _(own: Padding) -> Tensor:
    """Every row is masked as the first one is."""
    return own(mask=own.mask[:1].expand_as(own.mask))


@padding(
    "padding-inverted",
    "AUD-5",
    "padding.hides padding.ones padding.empty_row",
    source="hkproj/pytorch-transformer#19",
)
def _(own: Padding) -> Tensor:
    """Real tokens are hidden, and padding is seen."""
    return own(mask=1 - own.mask.long())


@padding("padding-mask-dropped", "AUD-5", "arguments.heeded padding.hides")
def _(own: Padding) -> Tensor:
    """The mask is taken, and hides nothing."""
    return own(mask=torch.ones_like(own.mask))


@padding("padding-seen-by-steps", "AUD-5", "padding.cache")
def _(own: Padding) -> Tensor:
    """The mask hides padding from the prompt alone: single tokens behind a cache see it."""
    seen = own()
    return seen | torch.ones_like(seen) if own.queries == 1 < own.mask.shape[1] else seen


@window("window-one-wider", "ATT-2", "declared.window")
def _(own: Window) -> Tensor:
    """The window holds one key more than is declared."""
    return own(width=own.width + 1)


@window("window-one-narrower", "ATT-2", "declared.window")
def _(own: Window) -> Tensor:
    """The window holds one key less than is declared."""
    return own(width=own.width - 1)


@window("window-ignored", "ATT-2", "declared.window window.field", source="unslothai/unsloth#8253")
def _(own: Window) -> Tensor:
    """The declared window is not applied."""
    return torch.ones_like(own())


# -- in the text of hosts ---------------------------------------------------------------


source("cache-of-the-first-layer-for-all", "AUD-6", "cache.steps cache.chunks cache.long",
    component="cache",
    says="Every layer reads the keys and values that the first layer has kept.")  # fmt: skip
source("padding-hides-queries-to-nan", "AUD-5", "padding.hides", component="padding",
    says="The padding mask stands on the axis of the queries, whose rows are then "
         "NaN.")  # fmt: skip
source("masks-add-up-to-infinity", "AUD-5", "padding.finite", component="padding",
    says="Two masks of the lowest number are added: a row of padding is -infinity "
         "throughout, hence NaN.")  # fmt: skip
source("masks-add-up-to-infinity-in-half-precision", "AUD-5", "padding.half_precision",
    component="dtype",
    says="Two masks of -50,000 are added: in float16 that is -infinity.")  # fmt: skip
source("padding-counted-as-positions", "AUD-5", "padding.alone", component="position",
    says="Positions are counted from the left edge, padding included.")  # fmt: skip
source("padding-replaces-the-triangle", "AUD-5 ATT-4", "padding.causality", component="mask",
    says="Where a padding mask is given, it replaces the triangle.")  # fmt: skip
source("documents-see-each-other", "AUD-5", "packing.documents", component="mask",
    says="Documents packed into one row see each other.")  # fmt: skip
source("later-documents-see-each-other", "AUD-5", "packing.documents", component="mask",
    says="Documents packed into one row are told apart up to the third, and no "
         "further.")  # fmt: skip
source("packed-positions-run-on", "AUD-5", "packing.documents", component="position",
    says="Positions of packed documents run on, though they begin anew when the "
         "documents stand alone.")  # fmt: skip
source("documents-apart-in-the-first-layer-alone", "AUD-5", "packing.documents", component="mask",
    says="Documents packed into one row are told apart in the first layer, and in "
         "no other.")  # fmt: skip
source("positions-counted-anew", "AUD-13 POS-3", "arguments.heeded", component="position",
    says="Positions that are given are counted anew, and lost.")  # fmt: skip
source("documents-dropped", "AUD-13", "arguments.heeded", component="mask",
    says="Numbers of documents are taken, and reach neither mask nor positions.")  # fmt: skip
