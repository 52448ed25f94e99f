"""Faults of heads: projection, splitting, groups, joining."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.places import (
    Groups,
    Join,
    Project,
    Split,
    Triple,
    groups,
    join,
    project,
    split,
)
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference import attention, config
from theodolite.reference.attention import MultiHeadAttention


@mutant("heads-of-full-width", "MHA-1", component="heads")
def _(patch: Patch) -> None:
    """Every head is as wide as the model, instead of sharing its width."""

    def shape(width: int, heads: int, *_: int | None) -> tuple[int, int]:
        return width, heads

    patch.replace(config.head_shape, shape)


@mutant("heads-attend-to-each-other", "MHA-2", component="heads")
def _(patch: Patch) -> None:
    """Heads and positions are not exchanged: each position's heads attend to one another."""
    plain = attention.scaled_dot_product_attention

    def attend(_: Any, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        options["causal"] = False
        turned = (x.transpose(1, 2) for x in (query, key, value))
        return plain(*turned, **options).flatten(2)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("heads-split-without-transpose", "MHA-3", component="heads")
def _(patch: Patch) -> None:
    """(B, T, C) is viewed as (B, H, T, d) outright: heads take stretches of the sequence."""

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = (x.shape[0], self.heads, x.shape[1], self.head_width)
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        return query.reshape(shape), key.reshape(shape), value.reshape(shape)

    patch.method(MultiHeadAttention, "project", project)


@mutant("fused-projection-read-per-head", "MHA-3", component="heads")
def _(patch: Patch) -> None:
    """Rows of the fused matrix are read as q, k, v of head 0, then of head 1, and so on."""

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        apart = self.qkv(x).unflatten(-1, (self.heads, 3, self.head_width))
        query, key, value = apart.transpose(1, 2).unbind(dim=3)
        return query, key, value

    patch.method(MultiHeadAttention, "project", project)


@mutant("keys-and-values-exchanged", "MHA-3", component="heads")
def _(patch: Patch) -> None:
    """The fused projection's second and third parts change places."""
    plain = MultiHeadAttention.project

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = plain(self, x)
        return query, value, key

    patch.method(MultiHeadAttention, "project", project)


@mutant("no-output-projection", "MHA-4", component="heads")
def _(patch: Patch) -> None:
    """The joined heads are returned as they are; W_O exists and is not used."""

    def forward(self: MultiHeadAttention, x: Tensor, *, causal: bool = True, **_: Any) -> Tensor:
        attended: Tensor = self.attend(*self.project(x), mask=None, causal=causal)
        return attended

    patch.method(MultiHeadAttention, "forward", forward)


@mutant("output-projection-head-by-head", "MHA-4", component="heads")
def _(patch: Patch) -> None:
    """W_O is used in blocks on its diagonal only: heads are never mixed."""

    def forward(self: MultiHeadAttention, x: Tensor, *, causal: bool = True, **_: Any) -> Tensor:
        joined: Tensor = self.attend(*self.project(x), mask=None, causal=causal)
        channel = torch.arange(joined.shape[-1]) // self.head_width
        same_head = channel[:, None] == channel
        mixed: Tensor = joined @ (self.output.weight * same_head).T
        return mixed

    patch.method(MultiHeadAttention, "forward", forward)


@mutant("one-pattern-for-all-heads", "MHA-2 MHA-5", component="heads")
def _(patch: Patch) -> None:
    """All heads use the queries and keys of the first."""
    plain = MultiHeadAttention.attend

    def attend(
        self: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, **options: Any
    ) -> Tensor:
        query, key = query[:, :1].expand(query.shape), key[:, :1].expand(key.shape)
        return plain(self, query, key, value, **options)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("head-width-rounded-down", "MHA-6", component="heads")
def _(patch: Patch) -> None:
    """A width that does not divide is cut to what does, without a word."""

    def shape(
        width: int, heads: int, kv_heads: int | None = None, head_width: int | None = None
    ) -> tuple[int, int]:
        return head_width or max(1, width // heads), kv_heads or heads

    patch.replace(config.head_shape, shape)


# -- in every host that has the seam ---------------------------------------------------------------


@project(
    "values-are-the-keys",
    "MHA-3",
    "heads.projections",
    component="attention",
    source="yflyzhang/AnnotatedTransformer#1",
    often="reference",
)
def _(own: Project) -> Triple:
    """Values are what the keys' part of the projection gives; their own part lies idle."""
    query, key, _ = own()
    return query, key, key


@project("second-head-copies-the-first", "MHA-5", "heads.differ groups.queries", often="reference")
def _(own: Project) -> Triple:
    """The second head asks with the first one's queries; where it has keys, with its keys too."""
    query, key, value = own()
    if query.shape[1] < 2:
        return query, key, value
    order = [0, 0, *range(2, query.shape[1])]
    key = key[:, order] if key.shape[1] == query.shape[1] else key
    return query[:, order], key, value


@project("queries-from-the-batch-mean", "AUD-3", "batch.independence", component="batch")
def _(own: Project) -> Triple:
    """Queries are centred over the rows of the batch."""
    query, key, value = own()
    return query - query.mean(0, keepdim=True), key, value


@split("heads-split-by-a-view", "GPT-4", "length.longest")
def _(own: Split) -> Tensor:
    """Time and channels are cut into heads by a view, without exchanging the axes."""
    return own.x.contiguous().view(own.x.shape[0], -1, own.x.shape[1], own.width)


@join(
    "heads-joined-without-transpose",
    "MHA-2 MHA-4 ATT-4 AUD-2 GPT-4",
    "heads.joined",
    source="jsbaan/transformer-from-scratch#6",
    often="reference",
)
def _(own: Join) -> Tensor:
    """Heads are put side by side as they lie, without moving time back to the front."""
    return own.x.contiguous().view(own.x.shape[0], own.x.shape[2], -1)


@join("heads-averaged-not-joined", "MHA-4", "heads.joined")
def _(own: Join) -> Tensor:
    """Every head hands on the mean over all heads."""
    return own(x=own.x.mean(1, keepdim=True).expand_as(own.x))


@groups(
    "groups-tiled", "MHA-2", "heads.groups", needs="gqa", source="onnx/onnx#7274", often="mixtral"
)
def _(own: Groups) -> Tensor:
    """Key heads are handed out in turn (0, 1, 0, 1), not to neighbours (0, 0, 1, 1)."""
    return own.x.repeat(1, own.heads // own.x.shape[1], 1, 1)


@groups("one-key-head-for-all", "MHA-2", "groups.members", needs="gqa")
def _(own: Groups) -> Tensor:
    """All query heads get the first key head; the others lie idle."""
    return own.x[:, :1].expand(-1, own.heads, -1, -1)


@groups("groups-along-time", "MHA-2 AUD-2", "causality.perturb", needs="gqa")
def _(own: Groups) -> Tensor:
    """Keys and values are repeated along time, and then read as if heads had been repeated."""
    rows, _, length, width = own.x.shape
    return own.x.repeat_interleave(own.heads // own.x.shape[1], 2).reshape(
        rows, own.heads, length, width
    )


# -- in the text of hosts ---------------------------------------------------------------


source("keys-tiled-and-values-in-groups", "MHA-2", "heads.groups", component="heads",
    says="Key heads are handed out in turn while value heads go to neighbours.")  # fmt: skip
source("key-heads-turned-round", "MHA-2", "groups.members", component="heads",
    says="The first key head goes to the last group of query heads.")  # fmt: skip
source("value-heads-turned-round", "MHA-2", "groups.members", component="heads",
    says="The first value head goes to the last group of query heads, keys to the "
         "first.")  # fmt: skip
source("groups-of-uneven-size", "MHA-2", "groups.members", component="heads",
    says="The first key head serves more query heads than the second.")  # fmt: skip
source("values-of-two-heads-added", "MHA-2", "groups.members", component="heads",
    says="The second group reads the sum of both value heads.")  # fmt: skip
