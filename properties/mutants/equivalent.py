"""Changes that are no faults: other code for the same model, which must pass."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.properties.mutants.hosts.seams import hidden
from theodolite.properties.mutants.places import (
    Angles,
    Block,
    Distribution,
    Extend,
    Gate,
    Join,
    Loss,
    Norm,
    Pair,
    Positions,
    Rotary,
    Router,
    Scores,
    Triangle,
    Triple,
    Weights,
    angles,
    block,
    distribution,
    extend,
    gate,
    join,
    loss,
    norm,
    positions,
    rotary,
    router,
    scores,
    triangle,
    weights,
)


@scores(
    "scale-on-the-queries",
    "SCL-5",
    component="scale",
    equivalent="(q·s)·k = s·(q·k)",
    often="llama",
)
def _(own: Scores) -> Tensor:
    """Queries are scaled before the product, and scores are not."""
    return own(query=own.query * own.scale, scale=1.0)


@scores("queries-and-keys-negated", "ATT-8", equivalent="(-q)·(-k) = q·k")
def _(own: Scores) -> Tensor:
    """Queries and keys both change their sign."""
    return own(query=-own.query, key=-own.key)


@scores(
    "scores-from-keys-to-queries",
    "ATT-8",
    equivalent="q·k = k·q: the product is transposed back",
    often="grouped",
)
def _(own: Scores) -> Tensor:
    """The product is taken the other way round and transposed."""
    return own(query=own.key, key=own.query).transpose(-2, -1)


@weights(
    "maximum-taken-from-the-scores", "ATT-3", equivalent="softmax ignores a constant added to a row"
)
def _(own: Weights) -> Tensor:
    """The largest visible score of a row is taken from all of its scores."""
    return own(scores=own.scores - hidden(own.scores, own.visible).amax(-1, keepdim=True).detach())


@weights(
    "mask-by-the-lowest-number",
    "ATT-2",
    component="mask",
    equivalent="exp of it is 0 beside any score",
)
def _(own: Weights) -> Tensor:
    """Hidden scores become the lowest finite number, not -infinity."""
    return own(scores=hidden(own.scores, own.visible), visible=None)


@weights("softmax-through-its-logarithm", "ATT-3", equivalent="exp(log softmax) = softmax")
def _(own: Weights) -> Tensor:
    """Weights are the exponential of the log-softmax."""
    return hidden(own.scores, own.visible).log_softmax(-1).exp()


@weights(
    "softmax-off-by-one",
    "AUD-2",
    equivalent="a design: a key of score 0 and no value, so that a head may look at nothing",
    often="gpt2",
)
def _(own: Weights) -> Tensor:
    """The denominator has one more: weights sum to less than 1."""
    scores = hidden(own.scores, own.visible)
    joined = torch.cat((scores, torch.zeros_like(scores[..., :1])), -1)
    return joined.softmax(-1)[..., :-1]


@triangle("triangle-by-comparison", "ATT-4", equivalent="the same triangle")
def _(own: Triangle) -> Tensor:
    """The triangle is made by comparing positions."""
    return torch.arange(own.keys)[None] <= torch.arange(own.keys - own.queries, own.keys)[:, None]


@join("heads-joined-through-contiguous", "GPT-4", equivalent="a copy in order, then a view")
def _(own: Join) -> Tensor:
    """Heads are transposed, copied and viewed."""
    B, H, T, d = own.x.shape
    return own.x.transpose(1, 2).contiguous().view(B, T, H * d)


@join(
    "heads-in-reverse-order",
    "AUD-2",
    equivalent="W_O mixes all heads: another order of its columns",
    often="nano",
)
def _(own: Join) -> Tensor:
    """The last head is put first before they are mixed."""
    return own(x=own.x.flip(1))


@rotary(
    "rope-turns-the-other-way",
    "ROPE-2 ROPE-3 ROPE-5 ROPE-7 ROPE-8 ROPE-9",
    equivalent="both turn by -m·θ: scores still depend on m - n alone",
)
def _(own: Rotary) -> Triple:
    """Queries and keys turn in the other direction."""
    return own(sine=-own.sine)


@angles("angles-from-one-on", "ROPE-1", equivalent="all positions move together: differences stay")
def _(own: Angles) -> Pair:
    """The first token is turned by the angle of position 1."""
    return own(positions=own.positions + 1)


@angles("angles-in-double-precision", "ROPE-5", equivalent="the same angles, rounded later")
def _(own: Angles) -> Pair:
    """Angles are computed in float64."""
    plain = own()[0].dtype
    angles = own.positions[..., None].double() * own.frequencies.double()
    return angles.cos().to(plain), angles.sin().to(plain)


@block("addition-in-the-other-order", "RES-1 RES-2 RES-3 RES-4 RES-5", equivalent="a + b = b + a")
def _(own: Block) -> Tensor:
    """Branches come first in each sum."""
    x = own.attention(own.first(own.x)) + own.x
    return own.feed(own.second(x)) + x


@block(
    "norms-named-the-other-way",
    "AUD-2",
    component="norm",
    equivalent="two norms of one kind change their names",
)
def _(own: Block) -> Tensor:
    """The norm that is called the second stands before attention."""
    return own(first=own.second, second=own.first)


@norm("norm-in-double-precision", "NORM-1", equivalent="the same formula, rounded once")
def _(own: Norm) -> Tensor:
    """The mean square is computed in float64, a LayerNorm's variance as E[x²] - E[x]²."""
    wide = own.x.double()
    mean = wide.mean(-1, keepdim=True) if own.bias is not None else torch.zeros(1).double()
    variance = wide.square().mean(-1, keepdim=True) - mean.square()
    unit = ((wide - mean) * torch.rsqrt(variance + own.eps)).to(own.x.dtype)
    return unit * own.weight if own.bias is None else unit * own.weight + own.bias


@gate("silu-written-out", "FFN-2", equivalent="SiLU(x) = x·σ(x)")
def _(own: Gate) -> Tensor:
    """SiLU is written as a product with a sigmoid."""
    return own.gate * own.gate.sigmoid() * own.up


@loss(
    "loss-by-gathering-log-probabilities",
    "GPT-5 GPT-6",
    equivalent="cross-entropy is the mean of -log p of the targets",
)
def _(own: Loss) -> Tensor:
    """Log-probabilities of the targets are gathered and averaged."""
    if own.logits.shape[:-1] != own.targets.shape:
        return own()
    counted = own.targets != -100
    found = own.logits.log_softmax(-1).gather(-1, own.targets.clamp_min(0).long()[..., None])[
        ..., 0
    ]
    return -(found * counted).sum() / counted.sum()


@positions("positions-counted-by-a-running-sum", "POS-3", equivalent="0, 1, 2 … by adding ones")
def _(own: Positions) -> Tensor:
    """Positions are a running sum of ones."""
    found: Tensor = own()
    return found[..., :1] + torch.ones_like(found).cumsum(-1) - 1 if own.padding is None else found


@router(
    "router-softmax-before-the-choice",
    "FFN-1",
    equivalent="divided by their sum, the chosen are the softmax of the chosen",
)
def _(own: Router) -> Pair:
    """Probabilities are taken over all experts, and those of the chosen divided by their sum."""
    top, chosen = own.logits.softmax(-1).topk(own.k, dim=-1)
    return top / top.sum(-1, keepdim=True), chosen


@distribution("sorted-before-it-is-filtered", "GEN-1", equivalent="an order that is put back")
def _(own: Distribution) -> Tensor:
    """Logits are sorted, filtered and put back into the order of the ids."""
    order = own.logits.argsort(-1, descending=True)
    found = own(logits=own.logits.gather(-1, order))
    return torch.zeros_like(found).scatter(-1, order, found)


@extend("cache-copied-at-every-step", "AUD-6", equivalent="a copy holds the same")
def _(own: Extend) -> Pair:
    """What is kept is copied before it is extended."""
    if own.past_key is None or own.past_value is None:
        return own()
    return own(past_key=own.past_key.clone(), past_value=own.past_value.clone())
