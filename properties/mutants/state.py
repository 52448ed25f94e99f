"""Faults of what a model holds: parts that nobody uses, places that do not come back."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch import nn

from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference.model import GPT


@mutant(
    "a-frozen-part-never-called",
    "AUD-12",
    "modules.executed",
    component="parameters",
    source="ml-explore/mlx#1636",
    often="reference",
)
def _(patch: Patch) -> None:
    """A second head is built, frozen, and never called."""

    def add(gpt: GPT) -> None:
        gpt.spare = nn.Linear(gpt.config.width, gpt.config.vocabulary).requires_grad_(False)

    patch.after_init(GPT, add)


@mutant("decoding-raises-the-base", "AUD-9", "state.used", component="state", often="reference")
def _(patch: Patch) -> None:
    """Behind a cache the rotary base grows with the text, and nothing puts it back."""
    original = GPT.forward

    @wraps(original)
    def forward(self: GPT, *arguments: Any, **options: Any) -> Any:
        result = original(self, *arguments, **options)
        cache, rotary = options.get("cache"), self.rotary
        if cache is not None and cache.length > 4 and rotary is not None:
            rotary.base *= 1.125
            if rotary.length is not None:
                rotary._table = rotary._compute(torch.arange(rotary.length))
        return result

    patch.method(GPT, "forward", forward)


@mutant("loss-over-the-whole-mask", "AUD-10", "loss.padding", component="loss", often="reference")
def _(patch: Patch) -> None:
    """Under a padding mask the loss is divided by B·T, padding included."""
    original = GPT.forward

    @wraps(original)
    def forward(self: GPT, *arguments: Any, **options: Any) -> Any:
        result, mask = original(self, *arguments, **options), options.get("attention_mask")
        if mask is None or not isinstance(result, tuple):
            return result
        return result[0], result[1] * mask.float().mean()

    patch.method(GPT, "forward", forward)


# -- in the text of hosts ---------------------------------------------------------------


source("building-asks-for-a-value", "AUD-9", "state.meta", component="state",
    says="The constructor asks for a weight's value, which there is none of on the "
         "meta device.")  # fmt: skip
source("decoding-leaves-its-offset", "AUD-9", "state.used", component="state",
    says="What was decoded before moves the positions of the next sequence.")  # fmt: skip
source("a-gain-that-grows", "AUD-9", "state.untouched", component="state",
    says="Every forward makes the final norm's gain a little larger.")  # fmt: skip
