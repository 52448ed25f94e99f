"""Faults of attention's blindness to order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention


@mutant("attention-prefers-near-keys", "ORD-1 ORD-2 ORD-3", component="attention")
def _(patch: Patch) -> None:
    """Scores lose a little for every position between query and key, asked or not."""
    original = attention.attention_scores

    def attention_scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        places = torch.arange(key.shape[-2])
        distance = (places[-query.shape[-2] :, None] - places).abs()
        return original(query, key, **options) - 0.01 * distance

    patch.replace(attention.attention_scores, attention_scores)


@mutant("attention-always-causal", "ORD-1", component="mask")
def _(patch: Patch) -> None:
    """The mask is put on although nobody asked for it."""
    original = attention.scaled_dot_product_attention

    def attend(*qkv: Tensor, **options: Any) -> Tensor:
        return original(*qkv, **{**options, "causal": True})

    patch.replace(attention.scaled_dot_product_attention, attend)


@mutant("attention-first-key-is-louder", "ORD-1 ORD-2 ORD-3", component="attention")
def _(patch: Patch) -> None:
    """The key at position 0 counts a tenth more than its score says."""
    original = attention.attention_scores

    def attention_scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        scores = original(query, key, **options)
        return scores + 0.1 * (torch.arange(key.shape[-2]) == 0)

    patch.replace(attention.attention_scores, attention_scores)


@mutant(
    "causal-mask-never-applied", "ORD-3", component="mask", source="facebookresearch/xformers#103"
)
def _(patch: Patch) -> None:
    """`causal` is honoured only when another mask comes with it."""
    original = attention.scaled_dot_product_attention

    def attend(*qkv: Tensor, **options: Any) -> Tensor:
        return original(*qkv, **{**options, "causal": options.get("mask") is not None})

    patch.replace(attention.scaled_dot_product_attention, attend)
