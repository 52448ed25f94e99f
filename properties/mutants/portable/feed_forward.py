"""Faults of the feed-forward network."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.registry import portable


@portable(
    "feed-forward-takes-the-one-before",
    seam="feed_forward",
    component="feed_forward",
    breaks=("FFN-1",),
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Each position is fed forward with the input of the position before it."""
    return original(x.roll(1, -2) if x.dim() > 1 else x)


@portable(
    "feed-forward-sees-the-sequence",
    seam="feed_forward",
    component="feed_forward",
    breaks=("ATT-4",),
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """The mean over the sequence is added to what the network reads."""
    return original(x + 0.1 * x.mean(-2, keepdim=True))


@portable(
    "feed-forward-averages-the-past",
    seam="feed_forward",
    component="feed_forward",
    breaks=("FFN-1",),
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """The network reads a running mean over the positions so far."""
    count = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)[:, None]
    return original(0.9 * x + 0.1 * x.cumsum(-2) / count)


@portable("gradient-of-nan", seam="feed_forward", component="gradient", breaks=("AUD-12",))
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """A square root is taken at exactly 0, where its slope is infinite."""
    return original(x) + (x - x).sqrt()


@portable(
    "feed-forward-centres-the-rows",
    seam="feed_forward",
    component="batch",
    breaks=("AUD-3",),
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """What the network reads is centred over the batch."""
    return original(x - 0.1 * x.mean(0, keepdim=True))


@portable(
    "swiglu-activates-the-other-branch",
    seam="gate",
    component="feed_forward",
    breaks=("FFN-2",),
    source="ml-explore/mlx-lm#767",
    needs=("gate",),  # where no name says which branch is the gate, either may be
)
def _(original: Callable[..., Tensor], gate: Tensor, up: Tensor) -> Tensor:
    """The activation is applied to the linear branch, and the gate is left linear."""
    return original(up, gate)


@portable(
    "swiglu-without-gate",
    seam="gate",
    component="feed_forward",
    breaks=("FFN-2",),
    source="google-research/timesfm#493",
)
def _(original: Callable[..., Tensor], gate: Tensor, up: Tensor) -> Tensor:
    """Only the activated branch is used; the other is computed and dropped."""
    del original, up
    return F.silu(gate)


@portable("swiglu-without-activation", seam="gate", component="feed_forward", breaks=("FFN-2",))
def _(original: Callable[..., Tensor], gate: Tensor, up: Tensor) -> Tensor:
    """Both branches are linear, and added: three matrices make one."""
    del original
    return gate + up


@portable("swiglu-adds-its-branches", seam="gate", component="feed_forward", breaks=("FFN-2",))
def _(original: Callable[..., Tensor], gate: Tensor, up: Tensor) -> Tensor:
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
def _(original: Callable[..., Tensor], gate: Tensor, up: Tensor) -> Tensor:
    """The gate passes a sigmoid, though the model says SiLU."""
    del original
    return gate.sigmoid() * up


@portable(
    "activation-left-out", seam="activation", component="feed_forward", breaks=("FFN-2", "FFN-5")
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
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
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """ReLU stands where the model says GELU."""
    del original
    return x.relu()
