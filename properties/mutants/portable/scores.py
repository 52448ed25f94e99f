"""Faults of scores, of their scale, and of the values that weights meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.registry import portable


@portable("one-head-takes-its-neighbours-keys", seam="scores", component="heads", breaks=("MHA-2",))
def _(original: Callable[..., Tensor], query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Half of the first head's keys are those of the last: its scores follow no one's q·k."""
    found: Tensor = original(query, key, scale)
    if found.dim() < 4 or found.shape[1] < 2:
        return found
    half = found[:, :1] * 0.5 + found[:, -1:] * 0.5
    return torch.cat([half, found[:, 1:]], 1)


@portable("scores-swallowed-by-a-bias", seam="scores", component="dtype", breaks=("AUD-8",))
def _(original: Callable[..., Tensor], query: Tensor, key: Tensor, scale: float) -> Tensor:
    """A million is added to every score and taken away again: float32 keeps steps of 1/16."""
    return original(query, key, scale) + 1e6 - 1e6


@portable("scores-without-gradient", seam="scores", component="gradient", breaks=("AUD-12",))
def _(original: Callable[..., Tensor], query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Scores are detached: queries and keys never learn."""
    return original(query, key, scale).detach()


@portable(
    "no-scale",
    seam="scale",
    component="scale",
    breaks=("SCL-2", "SCL-4", "SCL-5"),
    source="PAIR-code/tiny-transformers#71",
)
def _(original: Any, query: Tensor) -> float:
    """Scores are not divided by the root of the head width."""
    del original, query
    return 1.0


@portable(
    "scale-by-width-not-its-root",
    seam="scale",
    component="scale",
    breaks=("SCL-2", "SCL-4", "SCL-5"),
)
def _(original: Any, query: Tensor) -> float:
    """Scores are divided by the head width itself."""
    del original
    return 1 / query.shape[-1]


@portable(
    "scale-by-model-width",
    seam="scale",
    component="scale",
    breaks=("SCL-5",),
    source="FareedKhan-dev/train-llm-from-scratch#3",
)
def _(original: Any, query: Tensor) -> float:
    """Scores are divided by the root of the whole width, all heads together."""
    heads = query.shape[1] if query.dim() > 3 else 4
    return float(original(query)) / math.sqrt(heads)


@portable("scores-times-root-d", seam="scale", component="scale", breaks=("SCL-5",))
def _(original: Any, query: Tensor) -> float:
    """Scores are multiplied by the root of the head width where they should be divided."""
    del original
    return math.sqrt(query.shape[-1])


@portable("scale-fifteen-percent-off", seam="scale", component="scale", breaks=("SCL-2", "SCL-5"))
def _(original: Any, query: Tensor) -> float:
    """Scores are 15 % too large."""
    return float(original(query)) * 1.15


@portable("scale-by-the-length", seam="scale", component="scale", breaks=("AUD-2",))
def _(original: Any, query: Tensor) -> float:
    """Scores are divided by the root of the number of queries."""
    del original
    return 1 / math.sqrt(query.shape[-2])


@portable("values-of-the-next", seam="mix", component="heads", breaks=("ATT-4",))
def _(original: Callable[..., Tensor], weights: Tensor, value: Tensor) -> Tensor:
    """Each weight meets the value of the position behind its key: the next token shows."""
    early = torch.cat((value[..., 1:, :], value[..., -1:, :]), -2)
    return original(weights, early)


@portable("values-without-gradient", seam="mix", component="gradient", breaks=("AUD-12",))
def _(original: Callable[..., Tensor], weights: Tensor, value: Tensor) -> Tensor:
    """Values are detached: their projection never learns."""
    return original(weights, value.detach())


@portable(
    "attention-over-the-batch",
    seam="attend",
    component="batch",
    breaks=("AUD-3",),
    source="IBM/TabFormer#14",
)
def _(
    original: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Any,
    scale: float,
) -> Tensor:
    """Attention is fed (T, B, d) where it wants (B, T, d): it runs across the rows."""
    del visible
    if query.dim() < 4 or query.shape[2] != key.shape[2]:
        return original(query, key, value, None, scale)
    turned = (x.transpose(0, 2) for x in (query, key, value))
    return original(*turned, None, scale).transpose(0, 2)


@portable(
    "fused-dropout-in-evaluation", seam="attend", component="dropout", breaks=("ATT-7", "AUD-9")
)
def _(
    original: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor | None,
    scale: float,
) -> Tensor:
    """The fused operator is told its dropout in evaluation too."""
    del original
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, scale=scale, dropout_p=0.2
    )


@portable("means-on-top-of-a-buffer", seam="mix", component="attention", breaks=("ATT-7",))
def _(original: Callable[..., Tensor], weights: Tensor, value: Tensor) -> Tensor:
    """The means are added to what stands in the buffer that they are written to."""
    del original
    buffer = value.new_full((len(value) * value.shape[1], weights.shape[-2], value.shape[-1]), 0.3)
    means = torch.baddbmm(buffer, weights.flatten(0, 1), value.flatten(0, 1))
    return means.view(*weights.shape[:-1], value.shape[-1])
