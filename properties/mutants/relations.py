"""Faults of a whole model in its batch, vocabulary, gradient, state and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.host import REFERENCE
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention
from theodolite.reference.model import GPT


@mutant("a-weight-outside-state-dict", component="state", breaks=("AUD-9",))
def _(patch: Patch) -> None:
    """A random vector that scales the logits is a plain attribute: it is not saved."""

    def keep(gpt: Any) -> None:
        gpt.hidden = torch.rand(gpt.config.vocabulary)

    def change(go_on: Callable[..., Any], gpt: Any, ids: Tensor) -> Any:
        logits = go_on(ids)
        return logits if isinstance(logits, tuple) else logits * gpt.hidden

    patch.after_init(GPT, keep)
    REFERENCE.wrap("forward", change, patch)


@mutant("positions-wrap-around", component="shape", breaks=("AUD-11",))
def _(patch: Patch) -> None:
    """Past 200 tokens only the last 200 are read, and their logits stand in for all."""

    def change(go_on: Callable[..., Any], _: GPT, ids: Tensor) -> Any:
        logits = go_on(ids[:, -200:])
        if isinstance(logits, tuple) or ids.shape[1] <= 200:
            return logits
        return torch.cat([logits, logits[:, : ids.shape[1] - 200]], dim=1)

    REFERENCE.wrap("forward", change, patch)


@mutant("fused-without-scale", component="backend", breaks=("AUD-7",), source="mlc-ai/mlc-llm#3426")
def _(patch: Patch) -> None:
    """The fused path passes a scale of 1."""
    original = attention.fused_attention

    def fused(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return original(query, key, value, **{**options, "scale": 1.0})

    patch.replace(original, fused)
