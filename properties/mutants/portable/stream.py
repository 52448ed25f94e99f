"""Faults of the residual stream."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import portable

Part = Callable[[Tensor], Tensor]


@portable(
    "skip-carries-the-normalised",
    seam="block",
    component="residual",
    breaks=("RES-1", "RES-3", "RES-4"),
    source="pytorch/pytorch#61165",
)
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
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
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
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
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
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
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """The second sum adds what came into the block: attention's output is lost on the way."""
    del original
    return x + feed(second(x + attention(first(x))))


@portable("attention-added-twice", seam="block", component="residual", breaks=("RES-3",))
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """Attention's output is added to the trunk a second time behind the feed-forward network."""
    del original
    mixed = attention(first(x))
    x = x + mixed
    return x + mixed + feed(second(x))


@portable("attention-output-lost", seam="block", component="residual", breaks=("RES-3",))
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """Attention is computed and its output never added."""
    del original
    attention(first(x))
    return x + feed(second(x))


@portable("feed-forward-output-lost", seam="block", component="residual", breaks=("RES-3",))
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
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
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """The first norm serves both branches; the second is never called."""
    del second
    return original(x, first, attention, first, feed)


@portable("branch-reads-the-raw-trunk", seam="block", component="norm", breaks=("RES-4",))
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """Attention reads the trunk without its norm."""
    del first
    return original(x, lambda stream: stream, attention, second, feed)


@portable(
    "trunk-divided-by-root-two",
    seam="block",
    component="residual",
    breaks=("RES-1", "RES-2", "RES-3", "RES-5"),
)
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """Each sum is divided by √2, as if to keep its variance."""
    del original
    x = (x + attention(first(x))) / 2**0.5
    return (x + feed(second(x))) / 2**0.5


@portable("trunk-detached", seam="block", component="gradient", breaks=("RES-2",))
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """The skip carries values and no gradient, and branches read a copy."""
    return original(x.detach(), first, attention, second, feed)


@portable("trunk-changes-its-sign", seam="block", component="residual", breaks=("RES-3",))
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """Each block hands on the negative of its sum."""
    x = original(x, first, attention, second, feed)
    return -x


@portable(
    "sub-layers-in-parallel",
    seam="block",
    component="residual",
    breaks=("GPT-1",),
    needs=("profile",),
)
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """Both branches read the block's input, though the model says they come one after the other."""
    del original
    return x + attention(first(x)) + feed(second(x))


@portable(
    "norm-behind-the-sum", seam="block", component="norm", breaks=("RES-4",), needs=("profile",)
)
def _(
    original: Callable[..., Tensor],
    x: Tensor,
    first: Part,
    attention: Part,
    second: Part,
    feed: Part,
) -> Tensor:
    """The trunk is normalised after each sum, though the model says the branches are."""
    del original
    x = first(x + attention(x))
    return second(x + feed(x))


@portable(
    "branches-dropped-by-another-generator",
    seam="block",
    component="gradient",
    breaks=("AUD-12",),
    needs=("checkpointing",),
)
def _(
    original: Callable[..., Tensor], x: Tensor, first: Part, attention: Part, *rest: Part
) -> Tensor:
    """In training, attention is dropped by a generator that checkpointing does not rewind."""
    dropped = getattr(first, "training", False) and random.random() < 0.5
    return original(x, first, torch.zeros_like if dropped else attention, *rest)


@portable(
    "stream-scaled-by-another-generator",
    seam="block",
    component="gradient",
    breaks=("AUD-12",),
    needs=("checkpointing",),
)
def _(original: Callable[..., Tensor], x: Tensor, first: Part, *rest: Part) -> Tensor:
    """In training, a block's input is scaled by a generator that checkpointing does not rewind."""
    scale = 1 + random.random() if getattr(first, "training", False) else 1.0
    return original(scale * x, first, *rest)
