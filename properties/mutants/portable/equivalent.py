"""Changes that are no faults: other code for the same model, which must pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.host.seams import hidden
from theodolite.properties.mutants.registry import portable

Part = Callable[[Tensor], Tensor]
Triple = tuple[Tensor, Tensor, Tensor]


@portable(
    "scale-on-the-queries",
    seam="scores",
    component="scale",
    breaks=("SCL-5",),
    equivalent="(q·s)·k = s·(q·k)",
)
def _(original: Callable[..., Tensor], query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Queries are scaled before the product, and scores are not."""
    return original(query * scale, key, 1.0)


@portable(
    "queries-and-keys-negated",
    seam="scores",
    component="attention",
    breaks=("ATT-8",),
    equivalent="(-q)·(-k) = q·k",
)
def _(original: Callable[..., Tensor], query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Queries and keys both change their sign."""
    return original(-query, -key, scale)


@portable(
    "scores-from-keys-to-queries",
    seam="scores",
    component="attention",
    breaks=("ATT-8",),
    equivalent="q·k = k·q: the product is transposed back",
)
def _(original: Callable[..., Tensor], query: Tensor, key: Tensor, scale: float) -> Tensor:
    """The product is taken the other way round and transposed."""
    return original(key, query, scale).transpose(-2, -1)


@portable(
    "maximum-taken-from-the-scores",
    seam="weights",
    component="softmax",
    breaks=("ATT-3",),
    equivalent="softmax ignores a constant added to a row",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """The largest visible score of a row is taken from all of its scores."""
    return original(scores - hidden(scores, visible).amax(-1, keepdim=True).detach(), visible)


@portable(
    "mask-by-the-lowest-number",
    seam="weights",
    component="mask",
    breaks=("ATT-2",),
    equivalent="exp of it is 0 beside any score",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hidden scores become the lowest finite number, not -infinity."""
    return original(hidden(scores, visible), None)


@portable(
    "softmax-through-its-logarithm",
    seam="weights",
    component="softmax",
    breaks=("ATT-3",),
    equivalent="exp(log softmax) = softmax",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """Weights are the exponential of the log-softmax."""
    del original
    return hidden(scores, visible).log_softmax(-1).exp()


@portable(
    "softmax-off-by-one",
    seam="weights",
    component="softmax",
    breaks=("AUD-2",),
    equivalent="a design: a key of score 0 and no value, so that a head may look at nothing",
)
def _(original: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """The denominator has one more: weights sum to less than 1."""
    del original
    scores = hidden(scores, visible)
    joined = torch.cat((scores, torch.zeros_like(scores[..., :1])), -1)
    return joined.softmax(-1)[..., :-1]


@portable(
    "triangle-by-comparison",
    seam="triangle",
    component="mask",
    breaks=("ATT-4",),
    equivalent="the same triangle",
)
def _(original: Callable[..., Tensor], queries: int, keys: int) -> Tensor:
    """The triangle is made by comparing positions."""
    del original
    return torch.arange(keys)[None] <= torch.arange(keys - queries, keys)[:, None]


@portable(
    "heads-joined-through-contiguous",
    seam="join",
    component="heads",
    breaks=("GPT-4",),
    equivalent="a copy in order, then a view",
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Heads are transposed, copied and viewed."""
    del original
    B, H, T, d = x.shape
    return x.transpose(1, 2).contiguous().view(B, T, H * d)


@portable(
    "heads-in-reverse-order",
    seam="join",
    component="heads",
    breaks=("AUD-2",),
    equivalent="W_O mixes all heads: another order of its columns",
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """The last head is put first before they are mixed."""
    return original(x.flip(1))


@portable(
    "rope-turns-the-other-way",
    seam="rotary",
    component="rope",
    breaks=("ROPE-2", "ROPE-3", "ROPE-5", "ROPE-7", "ROPE-8", "ROPE-9"),
    equivalent="both turn by -m·θ: scores still depend on m - n alone",
)
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Queries and keys turn in the other direction."""
    return original(query, key, value, cosine, -sine)


@portable(
    "angles-from-one-on",
    seam="angles",
    component="rope",
    breaks=("ROPE-1",),
    equivalent="all positions move together: differences stay",
)
def _(
    original: Callable[..., tuple[Tensor, Tensor]], positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """The first token is turned by the angle of position 1."""
    return original(positions + 1, frequencies)


@portable(
    "angles-in-double-precision",
    seam="angles",
    component="rope",
    breaks=("ROPE-5",),
    equivalent="the same angles, rounded later",
)
def _(
    original: Callable[..., tuple[Tensor, Tensor]], positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """Angles are computed in float64."""
    own = original(positions, frequencies)[0].dtype
    angles = positions[..., None].double() * frequencies.double()
    return angles.cos().to(own), angles.sin().to(own)


@portable(
    "addition-in-the-other-order",
    seam="block",
    component="residual",
    breaks=("RES-1", "RES-2", "RES-3", "RES-4", "RES-5"),
    equivalent="a + b = b + a",
)
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """Branches come first in each sum."""
    del original
    x = attention(first(x)) + x
    return feed(second(x)) + x


@portable(
    "norms-named-the-other-way",
    seam="block",
    component="norm",
    breaks=("AUD-2",),
    equivalent="two norms of one kind change their names",
)
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """The norm that is called the second stands before attention."""
    return original(x, second, attention, first, feed)


@portable(
    "norm-in-double-precision",
    seam="norm",
    component="norm",
    breaks=("NORM-1",),
    equivalent="the same formula, rounded once",
)
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The mean square is computed in float64, a LayerNorm's variance as E[x²] - E[x]²."""
    del original
    wide = x.double()
    mean = wide.mean(-1, keepdim=True) if bias is not None else torch.zeros(1).double()
    variance = wide.square().mean(-1, keepdim=True) - mean.square()
    unit = ((wide - mean) * torch.rsqrt(variance + eps)).to(x.dtype)
    return unit * weight if bias is None else unit * weight + bias


@portable(
    "silu-written-out",
    seam="gate",
    component="feed_forward",
    breaks=("FFN-2",),
    equivalent="SiLU(x) = x·σ(x)",
)
def _(original: Callable[..., Tensor], gate: Tensor, up: Tensor) -> Tensor:
    """SiLU is written as a product with a sigmoid."""
    del original
    return gate * gate.sigmoid() * up


@portable(
    "loss-by-gathering-log-probabilities",
    seam="loss",
    component="loss",
    breaks=("GPT-5", "GPT-6"),
    equivalent="cross-entropy is the mean of -log p of the targets",
)
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """Log-probabilities of the targets are gathered and averaged."""
    if logits.shape[:-1] != targets.shape:
        return original(logits, targets)
    counted = targets != -100
    found = logits.log_softmax(-1).gather(-1, targets.clamp_min(0).long()[..., None])[..., 0]
    return -(found * counted).sum() / counted.sum()


@portable(
    "positions-counted-by-a-running-sum",
    seam="positions",
    component="position",
    breaks=("POS-3",),
    equivalent="0, 1, 2 … by adding ones",
)
def _(original: Callable[..., Tensor], length: int, past: int, padding: Any) -> Tensor:
    """Positions are a running sum of ones."""
    found: Tensor = original(length, past, padding)
    return found[..., :1] + torch.ones_like(found).cumsum(-1) - 1 if padding is None else found


@portable(
    "router-softmax-before-the-choice",
    seam="router",
    component="moe",
    breaks=("FFN-1",),
    equivalent="divided by their sum, the chosen are the softmax of the chosen",
)
def _(
    original: Callable[..., tuple[Tensor, Tensor]], logits: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Probabilities are taken over all experts, and those of the chosen divided by their sum."""
    del original
    top, chosen = logits.softmax(-1).topk(k, dim=-1)
    return top / top.sum(-1, keepdim=True), chosen


@portable(
    "sorted-before-it-is-filtered",
    seam="distribution",
    component="generation",
    breaks=("GEN-1",),
    equivalent="an order that is put back",
)
def _(
    original: Callable[..., Tensor], logits: Tensor, by: float, k: int | None, p: float | None
) -> Tensor:
    """Logits are sorted, filtered and put back into the order of the ids."""
    order = logits.argsort(-1, descending=True)
    found = original(logits.gather(-1, order), by, k, p)
    return torch.zeros_like(found).scatter(-1, order, found)


@portable(
    "cache-copied-at-every-step",
    seam="extend",
    component="cache",
    breaks=("AUD-6",),
    equivalent="a copy holds the same",
)
def _(
    original: Callable[..., tuple[Tensor, Tensor]],
    past_key: Any,
    past_value: Any,
    key: Tensor,
    value: Tensor,
) -> tuple[Tensor, Tensor]:
    """What is kept is copied before it is extended."""
    if past_key is None:
        return original(past_key, past_value, key, value)
    return original(past_key.clone(), past_value.clone(), key, value)
