"""Faults in splitting channels into heads, and in joining them again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, config
from theodolite.reference.attention import MultiHeadAttention


@mutant("heads-of-full-width", component="heads", breaks=("MHA-1",))
def _(patch: Patch) -> None:
    """Every head is as wide as the model, instead of sharing its width."""

    def shape(width: int, heads: int, *_: int | None) -> tuple[int, int]:
        return width, heads

    patch.replace(config.head_shape, shape)


@mutant("heads-attend-to-each-other", component="heads", breaks=("MHA-2",))
def _(patch: Patch) -> None:
    """Heads and positions are not exchanged: each position's heads attend to one another."""
    plain = attention.scaled_dot_product_attention

    def attend(_: Any, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        options["causal"] = False
        turned = (x.transpose(1, 2) for x in (query, key, value))
        return plain(*turned, **options).flatten(2)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("heads-split-without-transpose", component="heads", breaks=("MHA-3",))
def _(patch: Patch) -> None:
    """(B, T, C) is viewed as (B, H, T, d) outright: heads take stretches of the sequence."""

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = (x.shape[0], self.heads, x.shape[1], self.head_width)
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        return query.reshape(shape), key.reshape(shape), value.reshape(shape)

    patch.method(MultiHeadAttention, "project", project)


@mutant("fused-projection-read-per-head", component="heads", breaks=("MHA-3",))
def _(patch: Patch) -> None:
    """Rows of the fused matrix are read as q, k, v of head 0, then of head 1, and so on."""

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        apart = self.qkv(x).unflatten(-1, (self.heads, 3, self.head_width))
        query, key, value = apart.transpose(1, 2).unbind(dim=3)
        return query, key, value

    patch.method(MultiHeadAttention, "project", project)


@mutant("keys-and-values-exchanged", component="heads", breaks=("MHA-3",))
def _(patch: Patch) -> None:
    """The fused projection's second and third parts change places."""
    plain = MultiHeadAttention.project

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = plain(self, x)
        return query, value, key

    patch.method(MultiHeadAttention, "project", project)


@mutant("no-output-projection", component="heads", breaks=("MHA-4",))
def _(patch: Patch) -> None:
    """The joined heads are returned as they are; W_O exists and is not used."""

    def forward(self: MultiHeadAttention, x: Tensor, *, causal: bool = True, **_: Any) -> Tensor:
        attended: Tensor = self.attend(*self.project(x), mask=None, causal=causal)
        return attended

    patch.method(MultiHeadAttention, "forward", forward)


@mutant("output-projection-head-by-head", component="heads", breaks=("MHA-4",))
def _(patch: Patch) -> None:
    """W_O is used in blocks on its diagonal only: heads are never mixed."""

    def forward(self: MultiHeadAttention, x: Tensor, *, causal: bool = True, **_: Any) -> Tensor:
        joined: Tensor = self.attend(*self.project(x), mask=None, causal=causal)
        channel = torch.arange(joined.shape[-1]) // self.head_width
        same_head = channel[:, None] == channel
        mixed: Tensor = joined @ (self.output.weight * same_head).T
        return mixed

    patch.method(MultiHeadAttention, "forward", forward)


@mutant("heads-summed-not-joined", component="heads", breaks=("MHA-4",))
def _(patch: Patch) -> None:
    """Every head's slice of the output is the mean over heads."""
    plain = MultiHeadAttention.attend

    def attend(self: MultiHeadAttention, *given: Tensor, **options: Any) -> Tensor:
        joined: Tensor = plain(self, *given, **options).unflatten(-1, (self.heads, -1))
        return joined.mean(dim=-2, keepdim=True).expand(joined.shape).flatten(2)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("one-pattern-for-all-heads", component="heads", breaks=("MHA-2", "MHA-5"))
def _(patch: Patch) -> None:
    """All heads use the queries and keys of the first."""
    plain = MultiHeadAttention.attend

    def attend(
        self: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, **options: Any
    ) -> Tensor:
        query, key = query[:, :1].expand(query.shape), key[:, :1].expand(key.shape)
        return plain(self, query, key, value, **options)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("head-width-rounded-down", component="heads", breaks=("MHA-6",))
def _(patch: Patch) -> None:
    """A width that does not divide is cut to what does, without a word."""

    def shape(
        width: int, heads: int, kv_heads: int | None = None, head_width: int | None = None
    ) -> tuple[int, int]:
        return head_width or max(1, width // heads), kv_heads or heads

    patch.replace(config.head_shape, shape)
