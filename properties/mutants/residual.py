"""Faults of the residual stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference.block import Block
from theodolite.reference.feed_forward import FeedForward
from theodolite.reference.model import GPT

Branch = Callable[[Tensor], Tensor]
Layer = Callable[[Block, Tensor, Branch, Branch], Tensor]


def _replace_pre_norm(patch: Patch, layer: Layer) -> None:
    """Compute pre-norm blocks by `layer`; each branch takes what its norm has made."""
    original = Block.forward

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        if not self.pre_norm:
            return original(self, x, **options)

        def attend(normed: Tensor) -> Tensor:
            attended: Tensor = self.attention(normed, **options)
            return attended

        return layer(self, x, attend, self.feed_forward)

    patch.method(Block, "forward", forward)


@mutant(
    "skip-carries-the-normalised",
    component="residual",
    breaks=("RES-1", "RES-3", "RES-4"),
    source="pytorch/pytorch#61165",
)
def _(patch: Patch) -> None:
    """The block overwrites x with norm(x), so the skip carries the normalised value."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = self.attention_norm(x)
        x = x + attend(x)
        x = self.feed_forward_norm(x)
        return x + feed(x)

    _replace_pre_norm(patch, layer)


@mutant("no-residual-around-attention", component="residual", breaks=("RES-1", "RES-2", "RES-3"))
def _(patch: Patch) -> None:
    """Attention's output replaces the stream instead of being added to it."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = attend(self.attention_norm(x))
        return x + feed(self.feed_forward_norm(x))

    _replace_pre_norm(patch, layer)


@mutant("no-residual-around-feed-forward", component="residual", breaks=("RES-1", "RES-2", "RES-3"))
def _(patch: Patch) -> None:
    """The feed-forward network's output replaces the stream."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = x + attend(self.attention_norm(x))
        return feed(self.feed_forward_norm(x))

    _replace_pre_norm(patch, layer)


@mutant(
    "feed-forward-added-to-the-blocks-input",
    component="residual",
    breaks=("RES-3", "RES-4"),
    source="strutive07/transformer-tensorflow2.0#14",
)
def _(patch: Patch) -> None:
    """The second skip starts at the block's input and loses attention's output."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        attended = x + attend(self.attention_norm(x))
        return x + feed(self.feed_forward_norm(attended))

    _replace_pre_norm(patch, layer)


@mutant("attention-added-twice", component="residual", breaks=("RES-3",))
def _(patch: Patch) -> None:
    """Attention's output enters the stream twice."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        attended = attend(self.attention_norm(x))
        x = x + attended + attended
        return x + feed(self.feed_forward_norm(x))

    _replace_pre_norm(patch, layer)


@mutant("trunk-detached", component="gradient", breaks=("RES-2",))
def _(patch: Patch) -> None:
    """The trunk is detached from the graph: the forward is right and the gradient gone."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = x.detach() + attend(self.attention_norm(x))
        return x + feed(self.feed_forward_norm(x))

    _replace_pre_norm(patch, layer)


@mutant(
    "trunk-divided-by-root-two", component="residual", breaks=("RES-1", "RES-2", "RES-3", "RES-5")
)
def _(patch: Patch) -> None:
    """The sum is divided by √2 to keep its scale, so early layers fade with depth."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = (x + attend(self.attention_norm(x))) / 2**0.5
        return (x + feed(self.feed_forward_norm(x))) / 2**0.5

    _replace_pre_norm(patch, layer)


@mutant("branch-reads-the-raw-trunk", component="norm", breaks=("RES-4",))
def _(patch: Patch) -> None:
    """The feed-forward network reads the trunk before its norm."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = x + attend(self.attention_norm(x))
        return x + feed(x)

    _replace_pre_norm(patch, layer)


@mutant("norms-exchanged", component="norm", breaks=("RES-4",), source="ml-explore/mlx#1636")
def _(patch: Patch) -> None:
    """Attention's norm serves both branches, and the other is never called.

    The two differ once trained, or where one of their epsilons does.
    """

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = x + attend(self.attention_norm(x))
        return x + feed(self.attention_norm(x))

    _replace_pre_norm(patch, layer)


@mutant("pre-norm-after-the-branch", component="norm", breaks=("RES-4",))
def _(patch: Patch) -> None:
    """The norm stands at the branch's exit: x + norm(f(x))."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = x + self.attention_norm(attend(x))
        normed: Tensor = self.feed_forward_norm(feed(x))
        return x + normed

    _replace_pre_norm(patch, layer)


@mutant("pre-norm-scaled-with-depth", component="residual", breaks=("RES-4", "RES-5"))
def _(patch: Patch) -> None:
    """The trunk is brought back to RMS 1 at the end of each block."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = x + attend(self.attention_norm(x))
        x = x + feed(self.feed_forward_norm(x))
        return x / x.square().mean(dim=-1, keepdim=True).sqrt()

    _replace_pre_norm(patch, layer)


@mutant("post-norm-of-the-branch", component="norm", breaks=("RES-4", "RES-5"))
def _(patch: Patch) -> None:
    """Under post-norm only what is added is normalised, not the sum."""
    original = Block.forward

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        if self.pre_norm:
            return original(self, x, **options)
        x = x + self.attention_norm(self.attention(x, **options))
        added: Tensor = x + self.feed_forward_norm(self.feed_forward(x))
        return added

    patch.method(Block, "forward", forward)


@mutant(
    "no-final-norm",
    component="norm",
    breaks=("RES-5",),
    source="vllm-project/speculators#313",
)
def _(patch: Patch) -> None:
    """The head reads the stream as it is; the final norm is never applied."""
    original = GPT.__init__

    def make(self: GPT, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        self.norm = nn.Identity()

    patch.method(GPT, "__init__", make)


@mutant("relu-left-out", component="feed_forward", breaks=("RES-2",))
def _(patch: Patch) -> None:
    """The ReLU network is linear, which doubles what each layer hands down."""

    def forward(self: FeedForward, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.up(x))
        return out

    patch.method(FeedForward, "forward", forward)


@mutant(
    "addition-in-the-other-order",
    component="residual",
    breaks=("RES-1", "RES-2", "RES-3", "RES-4", "RES-5"),
    equivalent="Addition commutes, in floating point too.",
)
def _(patch: Patch) -> None:
    """The branch stands to the left of the sum, and the sum goes through torch.add."""

    def layer(self: Block, x: Tensor, attend: Branch, feed: Branch) -> Tensor:
        x = torch.add(attend(self.attention_norm(x)), x)
        return torch.add(feed(self.feed_forward_norm(x)), x)

    _replace_pre_norm(patch, layer)
