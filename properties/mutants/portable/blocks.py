"""Faults of norms, residual stream and feed-forward network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.registry import portable

Part = Callable[[Tensor], Tensor]


def _finished(unit: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scaled = unit.to(weight.dtype) * weight
    return scaled if bias is None else scaled + bias


def _over(x: Tensor, axes: tuple[int, ...], eps: float, *, centred: bool) -> Tensor:
    if centred:
        x = x - x.mean(axes, keepdim=True)
    return x * torch.rsqrt(x.square().mean(axes, keepdim=True) + eps)


# -- norms -------------------------------------------------------------------------------------


@portable(
    "norm-multiplies-by-the-rms",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-2", "NORM-3"),
    source="mosaicml/llm-foundry#371",
    needs=("rmsnorm",),
)
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The vector is multiplied by its RMS where it should be divided."""
    del original
    return _finished(x * (x.square().mean(-1, keepdim=True) + eps).sqrt(), weight, bias)


@portable(
    "rms-norm-by-the-deviation",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-3"),
    source="huggingface/pytorch-image-models#2380",
    needs=("rmsnorm",),
)
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The vector is divided by its standard deviation, the mean taken out."""
    del original
    variance = x.var(-1, keepdim=True, unbiased=False)
    return _finished(x * torch.rsqrt(variance + eps), weight, bias)


@portable(
    "epsilon-outside-the-root",
    seam="norm",
    component="norm",
    breaks=("NORM-1",),
    source="allenai/OLMo#281",
    needs=("rmsnorm",),
)
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """Epsilon is added to the RMS, not to the mean square."""
    del original
    return _finished(x / (x.square().mean(-1, keepdim=True).sqrt() + eps), weight, bias)


@portable("epsilon-left-out", seam="norm", component="norm", breaks=("NORM-1",))
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """There is no epsilon: a vector of zeros gives NaN."""
    del original, eps
    return _finished(_over(x, (-1,), 0.0, centred=bias is not None), weight, bias)


@portable(
    "mean-square-squared",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-2", "NORM-3"),
    source="131250208/TPlinker-joint-extraction#37",
)
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The mean square is squared where its root should be taken."""
    del original
    centred = x if bias is None else x - x.mean(-1, keepdim=True)
    return _finished(centred / (centred.square().mean(-1, keepdim=True) + eps) ** 2, weight, bias)


@portable(
    "sum-of-squares-for-their-mean",
    seam="norm",
    component="norm",
    breaks=("NORM-3",),
    needs=("rmsnorm",),
)
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """RMSNorm divides by the vector's length, √d times its RMS."""
    del original
    return _finished(x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps), weight, bias)


@portable(
    "mean-left-in",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-2"),
    needs=("layernorm",),
)
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The mean is left in, and the standard deviation divides."""
    del original
    variance = x.var(-1, keepdim=True, unbiased=False)
    return _finished(x * torch.rsqrt(variance + eps), weight, bias)


@portable(
    "variance-divided-by-d-minus-one",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-3"),
    needs=("layernorm",),
)
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The variance is divided by d - 1."""
    del original
    centred = x - x.mean(-1, keepdim=True)
    return _finished(centred * torch.rsqrt(x.var(-1, keepdim=True) + eps), weight, bias)


@portable("norm-over-time-in-the-model", seam="norm", component="norm", breaks=("ATT-4", "AUD-2"))
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The mean square is taken over the positions too."""
    if x.dim() < 3:
        return original(x, weight, bias, eps)  # type: ignore[no-any-return]
    return _finished(_over(x, (-2, -1), eps, centred=bias is not None), weight, bias)


@portable("norm-over-the-batch-in-the-model", seam="norm", component="norm", breaks=("AUD-3",))
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The mean square is taken over the rows of the batch too."""
    if x.dim() < 3:
        return original(x, weight, bias, eps)  # type: ignore[no-any-return]
    return _finished(_over(x, (0, -1), eps, centred=bias is not None), weight, bias)


@portable("gain-one-for-all-channels", seam="norm", component="norm", breaks=("NORM-3",))
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """Every channel gets the mean of the gains."""
    unit = _over(x, (-1,), eps, centred=bias is not None)
    del original
    return _finished(unit, weight.mean().expand_as(weight), bias)


@portable("gain-never-applied", seam="norm", component="norm", breaks=("NORM-3", "AUD-12"))
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The vector is normalised and its gain forgotten."""
    del original
    return _finished(_over(x, (-1,), eps, centred=bias is not None), torch.ones_like(weight), bias)


@portable(
    "shift-never-applied",
    seam="norm",
    component="gradient",
    breaks=("AUD-12",),
    needs=("layernorm",),
)
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """LayerNorm's bias is a parameter that nothing reads."""
    del original, bias
    return _finished(_over(x, (-1,), eps, centred=True), weight, None)


@portable("norm-in-half-precision", seam="norm", component="dtype", breaks=("AUD-8",))
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """Norms are computed in bfloat16 whatever the stream's precision."""
    unit = _over(x.bfloat16(), (-1,), eps, centred=bias is not None)
    del original
    return _finished(unit.to(x.dtype), weight, bias)


@portable("norm-of-half-the-channels", seam="norm", component="norm", breaks=("NORM-1", "NORM-4"))
def _(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """The mean square is that of the first half of the channels."""
    del original
    half = x[..., : x.shape[-1] // 2]
    mean = half.mean(-1, keepdim=True) if bias is not None else 0.0
    square = (half - mean).square().mean(-1, keepdim=True)
    return _finished((x - mean) * torch.rsqrt(square + eps), weight, bias)


@portable(
    "no-final-norm",
    seam="final_norm",
    component="norm",
    breaks=("RES-5",),
    source="vllm-project/speculators#313",
)
def _(original: Any, x: Tensor) -> Tensor:
    """The head reads the residual stream as it is."""
    del original
    return x


# -- the residual stream -----------------------------------------------------------------------


@portable(
    "skip-carries-the-normalised",
    seam="block",
    component="residual",
    breaks=("RES-1", "RES-3", "RES-4"),
    source="pytorch/pytorch#61165",
)
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """The trunk is overwritten by its norm before each branch is added."""
    del original
    x = first(x)
    x = second(x + attention(x))
    return x + feed(x)


@portable(
    "no-residual-around-attention",
    seam="block",
    component="residual",
    breaks=("RES-1", "RES-2", "RES-3"),
)
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """Attention replaces the trunk."""
    del original
    x = attention(first(x))
    return x + feed(second(x))


@portable(
    "no-residual-around-feed-forward",
    seam="block",
    component="residual",
    breaks=("RES-1", "RES-2", "RES-3"),
)
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """The feed-forward network replaces the trunk."""
    del original
    x = x + attention(first(x))
    return feed(second(x))


@portable(
    "feed-forward-added-to-the-blocks-input",
    seam="block",
    component="residual",
    breaks=("RES-3", "RES-4"),
    source="strutive07/transformer-tensorflow2.0#14",
)
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """The second sum adds what came into the block: attention's output is lost on the way."""
    del original
    return x + feed(second(x + attention(first(x))))


@portable("attention-added-twice", seam="block", component="residual", breaks=("RES-3",))
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """Attention's output is added to the trunk a second time behind the feed-forward network."""
    del original
    mixed = attention(first(x))
    x = x + mixed
    return x + mixed + feed(second(x))


@portable("attention-output-lost", seam="block", component="residual", breaks=("RES-3",))
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """Attention is computed and its output never added."""
    del original
    attention(first(x))
    return x + feed(second(x))


@portable("feed-forward-output-lost", seam="block", component="residual", breaks=("RES-3",))
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """The feed-forward network is computed and its output never added."""
    del original
    x = x + attention(first(x))
    feed(second(x))
    return x


@portable(
    "second-norm-never-called",
    seam="block",
    component="norm",
    breaks=("AUD-12",),
    source="ml-explore/mlx#1636",
)
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """The first norm serves both branches; the second is never called."""
    del second
    return original(x, first, attention, first, feed)  # type: ignore[no-any-return]


@portable("branch-reads-the-raw-trunk", seam="block", component="norm", breaks=("RES-4",))
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """Attention reads the trunk without its norm."""
    del first
    return original(x, lambda stream: stream, attention, second, feed)  # type: ignore[no-any-return]


@portable(
    "trunk-divided-by-root-two",
    seam="block",
    component="residual",
    breaks=("RES-1", "RES-2", "RES-3", "RES-5"),
)
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """Each sum is divided by √2, as if to keep its variance."""
    del original
    x = (x + attention(first(x))) / 2**0.5
    return (x + feed(second(x))) / 2**0.5


@portable("trunk-detached", seam="block", component="gradient", breaks=("RES-2",))
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """The skip carries values and no gradient, and branches read a copy."""
    return original(x.detach(), first, attention, second, feed)  # type: ignore[no-any-return]


@portable("trunk-changes-its-sign", seam="block", component="residual", breaks=("RES-3",))
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """Each block hands on the negative of its sum."""
    x = original(x, first, attention, second, feed)
    return -x


@portable("feed-forward-before-attention", seam="block", component="residual", breaks=("GPT-1",))
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """The feed-forward network comes first in every block."""
    return original(x, second, feed, first, attention)  # type: ignore[no-any-return]


@portable(
    "sub-layers-in-parallel",
    seam="block",
    component="residual",
    breaks=("GPT-1",),
    needs=("profile",),
)
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """Both branches read the block's input, though the model says they come one after the other."""
    del original
    return x + attention(first(x)) + feed(second(x))


@portable(
    "norm-behind-the-sum", seam="block", component="norm", breaks=("RES-4",), needs=("profile",)
)
def _(original: Any, x: Tensor, first: Part, attention: Part, second: Part, feed: Part) -> Tensor:
    """The trunk is normalised after each sum, though the model says the branches are."""
    del original
    x = first(x + attention(x))
    return second(x + feed(x))


# -- the feed-forward network ------------------------------------------------------------------


@portable(
    "feed-forward-takes-the-one-before",
    seam="feed_forward",
    component="feed_forward",
    breaks=("FFN-1",),
)
def _(original: Any, x: Tensor) -> Tensor:
    """Each position is fed forward with the input of the position before it."""
    return original(x.roll(1, -2) if x.dim() > 1 else x)  # type: ignore[no-any-return]


@portable(
    "feed-forward-sees-the-sequence",
    seam="feed_forward",
    component="feed_forward",
    breaks=("ATT-4",),
)
def _(original: Any, x: Tensor) -> Tensor:
    """The mean over the sequence is added to what the network reads."""
    return original(x + 0.1 * x.mean(-2, keepdim=True))  # type: ignore[no-any-return]


@portable(
    "feed-forward-averages-the-past",
    seam="feed_forward",
    component="feed_forward",
    breaks=("FFN-1",),
)
def _(original: Any, x: Tensor) -> Tensor:
    """The network reads a running mean over the positions so far."""
    count = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)[:, None]
    return original(0.9 * x + 0.1 * x.cumsum(-2) / count)  # type: ignore[no-any-return]


@portable("gradient-of-nan", seam="feed_forward", component="gradient", breaks=("AUD-12",))
def _(original: Any, x: Tensor) -> Tensor:
    """A square root is taken at exactly 0, where its slope is infinite."""
    return original(x) + (x - x).sqrt()  # type: ignore[no-any-return]


@portable(
    "feed-forward-centres-the-rows",
    seam="feed_forward",
    component="feed_forward",
    breaks=("AUD-3",),
)
def _(original: Any, x: Tensor) -> Tensor:
    """What the network reads is centred over the batch."""
    return original(x - 0.1 * x.mean(0, keepdim=True))  # type: ignore[no-any-return]


@portable(
    "swiglu-activates-the-other-branch",
    seam="gate",
    component="feed_forward",
    breaks=("FFN-2",),
    source="ml-explore/mlx-lm#767",
)
def _(original: Any, gate: Tensor, up: Tensor) -> Tensor:
    """The activation is applied to the linear branch, and the gate is left linear."""
    return original(up, gate)  # type: ignore[no-any-return]


@portable(
    "swiglu-without-gate",
    seam="gate",
    component="feed_forward",
    breaks=("FFN-2",),
    source="google-research/timesfm#493",
)
def _(original: Any, gate: Tensor, up: Tensor) -> Tensor:
    """Only the activated branch is used; the other is computed and dropped."""
    del original, up
    return F.silu(gate)


@portable("swiglu-without-activation", seam="gate", component="feed_forward", breaks=("FFN-2",))
def _(original: Any, gate: Tensor, up: Tensor) -> Tensor:
    """Both branches are linear, and added: three matrices make one."""
    del original
    return gate + up


@portable("swiglu-adds-its-branches", seam="gate", component="feed_forward", breaks=("FFN-2",))
def _(original: Any, gate: Tensor, up: Tensor) -> Tensor:
    """The branches are added where they should be multiplied."""
    del original
    return F.silu(gate) + up


@portable(
    "swiglu-by-sigmoid",
    seam="gate",
    component="feed_forward",
    breaks=("FFN-2",),
    needs=("profile",),
)
def _(original: Any, gate: Tensor, up: Tensor) -> Tensor:
    """The gate passes a sigmoid, though the model says SiLU."""
    del original
    return gate.sigmoid() * up


@portable(
    "activation-left-out", seam="activation", component="feed_forward", breaks=("FFN-2", "FFN-5")
)
def _(original: Any, x: Tensor) -> Tensor:
    """The network is linear: two matrices make one."""
    del original
    return x


@portable(
    "activation-is-relu",
    seam="activation",
    component="feed_forward",
    breaks=("FFN-2",),
    needs=("activation",),
)
def _(original: Any, x: Tensor) -> Tensor:
    """ReLU stands where the model says GELU."""
    del original
    return x.relu()
