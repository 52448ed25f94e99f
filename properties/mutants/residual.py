"""Faults of the residual stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference.block import Block
from theodolite.reference.feed_forward import FeedForward

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


@mutant("relu-left-out", component="feed_forward", breaks=("RES-2",))
def _(patch: Patch) -> None:
    """The ReLU network is linear, which doubles what each layer hands down."""

    def forward(self: FeedForward, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.up(x))
        return out

    patch.method(FeedForward, "forward", forward)
