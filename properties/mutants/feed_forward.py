"""Faults of the feed-forward network."""

from __future__ import annotations

import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.host import REFERENCE
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import feed_forward


def _replace_gating(patch: Patch, hidden_of: Any) -> None:
    """Let ``hidden_of(gate, up)`` be what SwiGLU's last matrix is given."""
    REFERENCE.wrap("gate", lambda _, gate, up: hidden_of(gate, up), patch)


def _replace_activation(patch: Patch, activation: Any) -> None:
    """Let the two-matrix network apply `activation`."""

    def forward(self: feed_forward.FeedForward, x: Tensor) -> Tensor:
        out: Tensor = self.down(activation(self.up(x)))
        return out

    patch.method(feed_forward.FeedForward, "forward", forward)


@mutant("swiglu-by-gelu", component="feed_forward", breaks=("FFN-2",))
def _(patch: Patch) -> None:
    """The gate is GELU's, which looks much like SiLU."""
    _replace_gating(patch, lambda gate, up: F.gelu(gate) * up)


@mutant("feed-forward-mixes-a-little-time", component="feed_forward", breaks=("FFN-1",))
def _(patch: Patch) -> None:
    """A thousandth of the mean over positions is added to each."""
    _replace_gating(patch, lambda gate, up: (h := F.silu(gate) * up) + 1e-3 * h.mean(1, True))


@mutant("feed-forward-centres-the-batch", component="feed_forward", breaks=("FFN-1",))
def _(patch: Patch) -> None:
    """Hidden channels are centred over batch and time."""
    _replace_activation(patch, lambda up: F.relu(up - up.mean(dim=(0, 1))))


@mutant("feed-forward-knows-the-place", component="feed_forward", breaks=("FFN-1",))
def _(patch: Patch) -> None:
    """The first position is left as it came through the activation, the others are shifted."""

    def shifted(up: Tensor) -> Tensor:
        hidden = F.relu(up)
        hidden[:, 1:] += 0.01
        return hidden

    _replace_activation(patch, shifted)


@mutant("gated-width-four-times", component="feed_forward", breaks=("FFN-3", "FFN-4"))
def _(patch: Patch) -> None:
    """The gated network keeps d_ff = 4·d, half as many parameters again."""
    patch.replace(
        feed_forward.gated_width,
        lambda width, multiple=8: feed_forward.round_up(4 * width, multiple),
    )


@mutant("gated-width-twice-reduced", component="feed_forward", breaks=("FFN-3", "FFN-4"))
def _(patch: Patch) -> None:
    """The factor 2/3 is applied twice."""
    patch.replace(
        feed_forward.gated_width,
        lambda width, multiple=8: feed_forward.round_up(math.ceil(16 * width / 9), multiple),
    )


@mutant("gated-width-rounded-down", component="feed_forward", breaks=("FFN-4",))
def _(patch: Patch) -> None:
    """8/3·d is rounded down."""
    patch.replace(feed_forward.round_up, lambda value, multiple: int(value) // multiple * multiple)


@mutant("gated-width-always-a-step-more", component="feed_forward", breaks=("FFN-3", "FFN-4"))
def _(patch: Patch) -> None:
    """A width that needs no rounding gets a step more all the same."""
    patch.replace(
        feed_forward.round_up, lambda value, multiple: (int(value) // multiple + 1) * multiple
    )


@mutant("relu-network-without-relu", component="feed_forward", breaks=("FFN-5",))
def _(patch: Patch) -> None:
    """Two matrices in a row are one matrix."""
    _replace_activation(patch, lambda up: up)


@mutant("relu-network-leaks", component="feed_forward", breaks=("FFN-5",))
def _(patch: Patch) -> None:
    """Negative channels pass at a hundredth."""
    _replace_activation(patch, lambda up: F.leaky_relu(up, 0.01))


@mutant("relu-network-narrow", component="feed_forward", breaks=("FFN-3", "FFN-5"))
def _(patch: Patch) -> None:
    """The hidden width is 2·d unless it is given."""
    original = feed_forward.FeedForward.__init__

    def init(
        self: feed_forward.FeedForward, width: int, hidden: int | None = None, **options: Any
    ) -> None:
        original(self, width, hidden or 2 * width, **options)

    patch.method(feed_forward.FeedForward, "__init__", init)
