"""Faults of mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import portable

Pair = tuple[Tensor, Tensor]


@portable(
    "routing-weights-across-tokens",
    seam="router",
    component="moe",
    breaks=("AUD-3",),
    source="databricks/megablocks#87",
)
def _(original: Callable[..., Pair], logits: Tensor, k: int) -> Pair:
    """Weights are divided by their sum over the tokens."""
    weights, chosen = original(logits, k)
    return weights / weights.norm(dim=0, keepdim=True), chosen


@portable(
    "one-expert-fewer",
    seam="router",
    component="moe",
    breaks=("FFN-1",),
    source="JieShibo/MoLE#7",
)
def _(original: Callable[..., Pair], logits: Tensor, k: int) -> Pair:
    """Only the best expert of each token works, though more are declared."""
    weights, chosen = original(logits, k)
    return torch.cat((weights[:, :1], weights[:, 1:] * 0), -1), chosen


@portable("router-without-gradient", seam="router", component="gradient", breaks=("AUD-12",))
def _(original: Callable[..., Pair], logits: Tensor, k: int) -> Pair:
    """Routing weights are detached: the router never learns."""
    weights, chosen = original(logits, k)
    return weights.detach(), chosen


@portable("router-sends-all-to-the-first", seam="router", component="moe", breaks=("AUD-12",))
def _(original: Callable[..., Pair], logits: Tensor, k: int) -> Pair:
    """Every token goes through the first experts; the others never work."""
    weights, chosen = original(logits, k)
    return weights, torch.arange(k).expand_as(chosen)


@portable("router-centres-over-tokens", seam="router", component="moe", breaks=("AUD-3",))
def _(original: Callable[..., Pair], logits: Tensor, k: int) -> Pair:
    """Router logits are centred over all tokens of the batch before they are ranked."""
    return original(logits - logits.mean(0, keepdim=True), k)


@portable("router-by-place", seam="router", component="moe", breaks=("FFN-1",))
def _(original: Callable[..., Pair], logits: Tensor, k: int) -> Pair:
    """Experts are handed out in turn, by the place of a token in the batch."""
    weights, chosen = original(logits, k)
    turn = torch.arange(len(logits))[:, None] + torch.arange(k)
    return weights, (turn % logits.shape[-1]).to(chosen.dtype)


@portable("tokens-beyond-capacity-dropped", seam="experts", component="moe", breaks=("AUD-3",))
def _(original: Callable[..., Tensor], x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    """Each expert has room for a third of the tokens; those that come later get nothing."""
    room = max(1, len(x) // 3)
    taken = torch.nn.functional.one_hot(chosen.flatten()).cumsum(0)
    place = taken.gather(1, chosen.flatten()[:, None]).view_as(chosen)
    return original(x, weights * (place <= room), chosen)


@portable("shares-in-another-order", seam="router", component="moe", breaks=("FFN-2",))
def _(original: Callable[..., Any], logits: Tensor, k: int) -> Any:
    """The best expert gets the smallest share, and the last of the chosen ones the largest."""
    shares, chosen = original(logits, k)
    return shares.flip(-1), chosen
