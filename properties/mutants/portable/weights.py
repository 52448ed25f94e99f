"""Faults between scores and attention weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.host.seams import hidden
from theodolite.properties.mutants.registry import portable


@portable(
    "mask-after-softmax",
    seam="weights",
    component="softmax",
    breaks=("ATT-1", "ATT-3"),
    source="huggingface/pytorch-image-models#2236",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Future weights are set to zero after softmax and not renormalised."""
    weights: Tensor = original(scores, None)
    return weights if visible is None else weights.masked_fill(~visible, 0.0)


@portable(
    "mask-filled-with-minus-ten",
    seam="weights",
    component="mask",
    breaks=("ATT-1", "ATT-2"),
    source="karpathy/minGPT#75",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hidden scores become -10, which leaves them a little weight."""
    filled = scores if visible is None else scores.masked_fill(~visible, -10.0)
    weights: Tensor = original(filled, None)
    return weights


@portable(
    "mask-filled-with-minus-ten-thousand",
    seam="weights",
    component="mask",
    breaks=("ATT-4",),
    source="huggingface/transformers#17121",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hidden scores become -10,000, which large scores can reach."""
    filled = scores if visible is None else scores.masked_fill(~visible, -1e4)
    weights: Tensor = original(filled, None)
    return weights


@portable("mask-multiplies-the-scores", seam="weights", component="mask", breaks=("ATT-2",))
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hidden scores are multiplied by 0, not set to -infinity: they count as 0."""
    weights: Tensor = original(scores if visible is None else scores * visible, None)
    return weights


@portable("softmax-over-queries", seam="weights", component="softmax", breaks=("ATT-1", "ATT-2"))
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax runs over the queries of one key."""
    del original
    scores = hidden(scores, visible)
    return scores.softmax(-2).nan_to_num()


@portable("softmax-over-heads", seam="weights", component="softmax", breaks=("ATT-2", "ATT-3"))
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Weights of one key sum to 1 over the heads, not over the keys of one query."""
    del original
    scores = hidden(scores, visible)
    return scores.softmax(-3 if scores.dim() > 3 else -1).nan_to_num()


@portable(
    "softmax-over-the-batch",
    seam="weights",
    component="softmax",
    breaks=("AUD-3",),
    source="PetrochukM/PyTorch-NLP#2",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax runs over the rows of the batch and their heads."""
    del original
    scores = hidden(scores, visible)
    return scores.flatten(0, -3).softmax(0).view_as(scores).nan_to_num()


@portable("weights-divided-by-their-number", seam="weights", component="softmax", breaks=("ATT-3",))
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Weights are divided by the number of keys that a query sees, as if they were a sum."""
    weights: Tensor = original(scores, visible)
    count = torch.arange(weights.shape[-2]) + 1.0 + weights.shape[-1] - weights.shape[-2]
    return weights / count[:, None].to(weights.dtype)


@portable("weights-ignore-the-scores", seam="weights", component="attention", breaks=("ATT-8",))
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Every visible key has the same weight."""
    weights: Tensor = original(scores * 0, visible)
    return weights


@portable(
    "weights-dropped-in-evaluation",
    seam="weights",
    component="dropout",
    breaks=("GPT-8",),
    source="karpathy/nanoGPT#240",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Dropout of attention weights knows no evaluation mode."""
    return F.dropout(original(scores, visible), 0.1, training=True)
