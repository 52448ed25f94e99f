"""Faults of the residual stream."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.hosts import REFERENCE
from theodolite.properties.mutants.places import Block, block
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference.block import Block as ReferenceBlock

Branch = Callable[[Tensor], Tensor]
Layer = Callable[[Tensor, Branch, Branch, Branch, Branch], Tensor]


def _replace_pre_norm(patch: Patch, layer: Layer) -> None:
    """Compute pre-norm blocks by ``layer(x, first norm, attention, second norm, feed-forward)``."""
    REFERENCE.wrap("block", lambda _, *given: layer(*given), patch)


@mutant("pre-norm-after-the-branch", "RES-4", component="norm")
def _(patch: Patch) -> None:
    """The norm stands at the branch's exit: x + norm(f(x))."""

    def layer(x: Tensor, first: Branch, attend: Branch, second: Branch, feed: Branch) -> Tensor:
        x = x + first(attend(x))
        return x + second(feed(x))

    _replace_pre_norm(patch, layer)


@mutant("pre-norm-scaled-with-depth", "RES-4 RES-5", component="residual")
def _(patch: Patch) -> None:
    """The trunk is brought back to RMS 1 at the end of each block."""

    def layer(x: Tensor, first: Branch, attend: Branch, second: Branch, feed: Branch) -> Tensor:
        x = x + attend(first(x))
        x = x + feed(second(x))
        return x / x.square().mean(dim=-1, keepdim=True).sqrt()

    _replace_pre_norm(patch, layer)


@mutant("post-norm-of-the-branch", "RES-4 RES-5", component="norm")
def _(patch: Patch) -> None:
    """Under post-norm only what is added is normalised, not the sum."""
    original = ReferenceBlock.forward

    def forward(self: ReferenceBlock, x: Tensor, **options: Any) -> Tensor:
        if self.pre_norm:
            return original(self, x, **options)
        x = x + self.attention_norm(self.attention(x, **options))
        added: Tensor = x + self.feed_forward_norm(self.feed_forward(x))
        return added

    patch.method(ReferenceBlock, "forward", forward)


# -- in every host that has the seam ---------------------------------------------------------------


@block(
    "skip-carries-the-normalised",
    "RES-1 RES-3 RES-4",
    "residual.identity",
    source="pytorch/pytorch#61165",
    often="reference",
)
def _(own: Block) -> Tensor:
    """The trunk is overwritten by its norm before each branch is added."""
    x = own.first(own.x)
    x = own.second(x + own.attention(x))
    return x + own.feed(x)


@block("no-residual-around-attention", "RES-1 RES-2 RES-3", "residual.identity", often="reference")
def _(own: Block) -> Tensor:
    """Attention replaces the trunk."""
    x = own.attention(own.first(own.x))
    return x + own.feed(own.second(x))


@block("no-residual-around-feed-forward", "RES-1 RES-2 RES-3", "residual.identity")
def _(own: Block) -> Tensor:
    """The feed-forward network replaces the trunk."""
    x = own.x + own.attention(own.first(own.x))
    return own.feed(own.second(x))


@block(
    "feed-forward-added-to-the-blocks-input",
    "RES-3 RES-4",
    "residual.sum",
    source="strutive07/transformer-tensorflow2.0#14",
    often="reference",
)
def _(own: Block) -> Tensor:
    """The second sum adds what came into the block: attention's output is lost on the way."""
    return own.x + own.feed(own.second(own.x + own.attention(own.first(own.x))))


@block("attention-added-twice", "RES-3", "residual.branches", often="reference")
def _(own: Block) -> Tensor:
    """Attention's output is added to the trunk a second time behind the feed-forward network."""
    mixed = own.attention(own.first(own.x))
    x = own.x + mixed
    return x + mixed + own.feed(own.second(x))


@block("attention-output-lost", "RES-3", "residual.sum", often="reference")
def _(own: Block) -> Tensor:
    """Attention is computed and its output never added."""
    own.attention(own.first(own.x))
    return own.x + own.feed(own.second(own.x))


@block("feed-forward-output-lost", "RES-3", "residual.branches")
def _(own: Block) -> Tensor:
    """The feed-forward network is computed and its output never added."""
    x = own.x + own.attention(own.first(own.x))
    own.feed(own.second(x))
    return x


@block(
    "second-norm-never-called",
    "AUD-12 RES-4",
    "modules.executed",
    component="norm",
    source="ml-explore/mlx#1636",
)
def _(own: Block) -> Tensor:
    """The first norm serves both branches; the second is never called."""
    return own(second=own.first)


@block("branch-reads-the-raw-trunk", "RES-4", "modules.executed", component="norm")
def _(own: Block) -> Tensor:
    """Attention reads the trunk without its norm."""
    return own(first=lambda stream: stream)


@block("trunk-divided-by-root-two", "RES-1 RES-2 RES-3 RES-5", "residual.identity")
def _(own: Block) -> Tensor:
    """Each sum is divided by √2, as if to keep its variance."""
    x = (own.x + own.attention(own.first(own.x))) / 2**0.5
    return (x + own.feed(own.second(x))) / 2**0.5


@block("trunk-detached", "RES-2", "gradient.every_parameter gradient.slope", component="gradient")
def _(own: Block) -> Tensor:
    """The skip carries values and no gradient, and branches read a copy."""
    return own(x=own.x.detach())


@block("trunk-changes-its-sign", "RES-3", "residual.identity")
def _(own: Block) -> Tensor:
    """Each block hands on the negative of its sum."""
    x = own()
    return -x


@block("sub-layers-in-parallel", "GPT-1", "declared.norm", needs="profile")
def _(own: Block) -> Tensor:
    """Both branches read the block's input, though the model says they come one after the other."""
    return own.x + own.attention(own.first(own.x)) + own.feed(own.second(own.x))


@block("norm-behind-the-sum", "RES-4", "declared.norm", component="norm", needs="profile")
def _(own: Block) -> Tensor:
    """The trunk is normalised after each sum, though the model says the branches are."""
    x = own.first(own.x + own.attention(own.x))
    return own.second(x + own.feed(x))


@block(
    "branches-dropped-by-another-generator",
    "AUD-12",
    "gradient.checkpointing",
    component="gradient",
    needs="checkpointing",
)
def _(own: Block) -> Tensor:
    """In training, attention is dropped by a generator that checkpointing does not rewind."""
    dropped = getattr(own.first, "training", False) and random.random() < 0.5
    return own(attention=torch.zeros_like if dropped else own.attention)


@block(
    "stream-scaled-by-another-generator",
    "AUD-12",
    "gradient.checkpointing",
    component="gradient",
    needs="checkpointing",
)
def _(own: Block) -> Tensor:
    """In training, a block's input is scaled by a generator that checkpointing does not rewind."""
    scale = 1 + random.random() if getattr(own.first, "training", False) else 1.0
    return own(x=scale * own.x)


# -- in the text of hosts ---------------------------------------------------------------


source("skip-carries-the-normalised-once", "RES-1 RES-4", "residual.identity", component="residual",
    says="The trunk is overwritten by its norm before one of the two branches.")  # fmt: skip
source("no-residual-at-all", "RES-3", "residual.sum", component="residual",
    says="Both branches replace the trunk.")  # fmt: skip
source("blocks-read-the-embedding", "GPT-1", "assembly.order", component="residual",
    says="Every block reads the embedding: only one of them has a say in the logits.")  # fmt: skip


source("keys-and-values-read-the-raw-stream", "RES-4", "norm.streams", component="norm",
    says="Queries read the norm's output, keys and values what the norm was given.")  # fmt: skip
source("one-branch-reads-the-raw-stream", "RES-4", "norm.streams", component="norm",
    says="The gate reads the norm's output, what it multiplies the norm's input.")  # fmt: skip
