"""Faults of the residual stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from theodolite.properties.mutants.host import REFERENCE
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference.block import Block
from theodolite.reference.feed_forward import FeedForward

Branch = Callable[[Tensor], Tensor]
Layer = Callable[[Tensor, Branch, Branch, Branch, Branch], Tensor]


def _replace_pre_norm(patch: Patch, layer: Layer) -> None:
    """Compute pre-norm blocks by ``layer(x, first norm, attention, second norm, feed-forward)``."""
    REFERENCE.wrap("block", lambda _, *given: layer(*given), patch)


@mutant("norms-exchanged", component="norm", breaks=("RES-4",), source="ml-explore/mlx#1636")
def _(patch: Patch) -> None:
    """Attention's norm serves both branches, and the other is never called.

    The two differ once trained, or where one of their epsilons does.
    """

    def layer(x: Tensor, norm: Branch, attend: Branch, _: Branch, feed: Branch) -> Tensor:
        x = x + attend(norm(x))
        return x + feed(norm(x))

    _replace_pre_norm(patch, layer)


@mutant("pre-norm-after-the-branch", component="norm", breaks=("RES-4",))
def _(patch: Patch) -> None:
    """The norm stands at the branch's exit: x + norm(f(x))."""

    def layer(x: Tensor, first: Branch, attend: Branch, second: Branch, feed: Branch) -> Tensor:
        x = x + first(attend(x))
        return x + second(feed(x))

    _replace_pre_norm(patch, layer)


@mutant("pre-norm-scaled-with-depth", component="residual", breaks=("RES-4", "RES-5"))
def _(patch: Patch) -> None:
    """The trunk is brought back to RMS 1 at the end of each block."""

    def layer(x: Tensor, first: Branch, attend: Branch, second: Branch, feed: Branch) -> Tensor:
        x = x + attend(first(x))
        x = x + feed(second(x))
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
