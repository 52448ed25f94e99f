"""Faults in scaled dot-product attention and its mask."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention


@mutant("weights-by-plain-sum", component="softmax", breaks=("ATT-2",))
def _(patch: Patch) -> None:
    """Scores are divided by the sum of their magnitudes: no exponential, so signs remain."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, 0.0)
        return F.normalize(scores, p=1, dim=-1)

    patch.replace(attention.attention_weights, weights)


@mutant("mask-finite-fill", component="mask", breaks=("ATT-1", "ATT-2"))
def _(patch: Patch) -> None:
    """Later scores are filled with -50: nothing at ordinary scores, a leak at large ones."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, -50.0)
        return scores.softmax(dim=-1)

    patch.replace(attention.attention_weights, weights)


@mutant(
    "mask-after-softmax-renormalised",
    component="mask",
    breaks=("ATT-3",),
    equivalent="dividing by the sum of what is left gives the softmax over the visible keys",
)
def _(patch: Patch) -> None:
    """Weights of later keys are set to zero after softmax, and the rest divided by its sum."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        full = scores.softmax(dim=-1)
        left = full if visible is None else full * visible
        return left / left.sum(dim=-1, keepdim=True)

    patch.replace(attention.attention_weights, weights)


@mutant("mask-ignored-when-fused", component="mask", breaks=("ATT-1",))
def _(patch: Patch) -> None:
    """The fused operator is given the triangle of the first keys, not of the last."""

    def fused(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        triangle = causal and mask is None
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=triangle, scale=scale
        )

    patch.replace(attention.fused_attention, fused)


@mutant("scores-not-transposed-back", component="attention", breaks=("ATT-1",))
def _(patch: Patch) -> None:
    """Keys ask queries: the score matrix is transposed."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        if query.shape != key.shape:
            return plain(query, key, **options)
        return plain(key, query, **options)

    patch.replace(plain, scores)


@mutant("weights-not-normalised", component="attention", breaks=("ATT-7",))
def _(patch: Patch) -> None:
    """The exponentials are never divided by their sum."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        return (scores - scores.amax(dim=-1, keepdim=True)).exp()

    patch.replace(attention.attention_weights, weights)


@mutant("no-softmax", component="attention", breaks=("ATT-7",))
def _(patch: Patch) -> None:
    """Scores weigh the values as they are, so the output is linear in Q and K too."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        return scores if visible is None else scores.masked_fill(~visible, 0.0)

    patch.replace(attention.attention_weights, weights)


@mutant("weights-ignore-the-query", component="attention", breaks=("ATT-8",))
def _(patch: Patch) -> None:
    """Every query is replaced by ones: keys alone decide the weights."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        return plain(torch.ones_like(query), key, **options)

    patch.replace(plain, scores)


@mutant("scores-by-cosine", component="attention", breaks=("ATT-8",))
def _(patch: Patch) -> None:
    """Queries and keys are brought to unit length before their product."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        return plain(F.normalize(query, dim=-1), F.normalize(key, dim=-1), **options)

    patch.replace(plain, scores)


@mutant("scores-by-distance", component="attention", breaks=("ATT-1", "ATT-8"))
def _(patch: Patch) -> None:
    """A score is minus the squared distance of query and key, not their product."""

    def scores(query: Tensor, key: Tensor, **_: Any) -> Tensor:
        return -torch.cdist(query, key).square() / (2 * math.sqrt(query.shape[-1]))

    patch.replace(attention.attention_scores, scores)


@mutant("values-activated", component="attention", breaks=("ATT-7",))
def _(patch: Patch) -> None:
    """Values pass a tanh before they are averaged."""
    plain = attention.scaled_dot_product_attention

    def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return plain(query, key, value.tanh(), **options)

    patch.replace(plain, attend)
