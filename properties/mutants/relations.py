"""Faults of a whole model in its batch, vocabulary, gradient, state and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.hosts import REFERENCE
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference import attention
from theodolite.reference.model import GPT


@mutant("a-weight-outside-state-dict", "AUD-9", "state.rebuilt", component="state")
def _(patch: Patch) -> None:
    """A random vector that scales the logits is a plain attribute: it is not saved."""

    def keep(gpt: Any) -> None:
        gpt.hidden = torch.rand(gpt.config.vocabulary)

    def change(go_on: Callable[..., Any], gpt: Any, ids: Tensor) -> Any:
        logits = go_on(ids)
        return logits if isinstance(logits, tuple) else logits * gpt.hidden

    patch.after_init(GPT, keep)
    REFERENCE.wrap("forward", change, patch)


@mutant("positions-wrap-around", "AUD-11", "length.longest", component="shape")
def _(patch: Patch) -> None:
    """Past 200 tokens only the last 200 are read, and their logits stand in for all."""

    def change(go_on: Callable[..., Any], _: GPT, ids: Tensor) -> Any:
        logits = go_on(ids[:, -200:])
        if isinstance(logits, tuple) or ids.shape[1] <= 200:
            return logits
        return torch.cat([logits, logits[:, : ids.shape[1] - 200]], dim=1)

    REFERENCE.wrap("forward", change, patch)


@mutant(
    "fused-without-scale",
    "AUD-7",
    "backend.agree",
    component="backend",
    source="mlc-ai/mlc-llm#3426",
)
def _(patch: Patch) -> None:
    """The fused path passes a scale of 1."""
    original = attention.fused_attention

    def fused(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return original(query, key, value, **{**options, "scale": 1.0})

    patch.replace(original, fused)


# -- in the text of hosts ---------------------------------------------------------------


source("fused-without-window", "AUD-7", "backend.agree", component="backend",
    says="The fused path has no window.")  # fmt: skip
source("bias-made-a-mask-in-evaluation", "AUD-7", "backend.modes", component="backend",
    says="In evaluation an additive bias is read as a mask: whatever is not 0 is "
         "hidden.")  # fmt: skip
source("mask-softened-in-one-backend", "AUD-7", "backend.agree", component="backend",
    says="One way to attend hides keys by -2, which leaves them a weight.")  # fmt: skip
source("flex-without-its-scale", "AUD-7", "backend.agree", component="backend",
    says="Flex attention is called with a scale of 1.")  # fmt: skip
source("scale-doubled-when-compiled", "AUD-7", "backend.compiled backend.exported",
    component="backend",
    says="Scores are doubled while the model is compiled.", budget="thorough")  # fmt: skip
source("mask-left-out-of-the-export", "AUD-7", "backend.exported", component="backend",
    says="While the model is exported nothing is hidden.", budget="thorough")  # fmt: skip
