"""Faults of the feed-forward network."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.hosts import REFERENCE
from theodolite.properties.mutants.places import Gate, Part, activation, feed_forward, gate
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import feed_forward as reference_feed_forward


def _replace_gating(patch: Patch, hidden_of: Any) -> None:
    """Let ``hidden_of(gate, up)`` be what SwiGLU's last matrix is given."""
    REFERENCE.wrap("gate", lambda _, gate, up: hidden_of(gate, up), patch)


def _replace_activation(patch: Patch, activation: Any) -> None:
    """Let the two-matrix network apply `activation`."""

    def forward(self: reference_feed_forward.FeedForward, x: Tensor) -> Tensor:
        out: Tensor = self.down(activation(self.up(x)))
        return out

    patch.method(reference_feed_forward.FeedForward, "forward", forward)


@mutant("swiglu-by-gelu", "FFN-2", component="feed_forward")
def _(patch: Patch) -> None:
    """The gate is GELU's, which looks much like SiLU."""
    _replace_gating(patch, lambda gate, up: F.gelu(gate) * up)


@mutant("feed-forward-mixes-a-little-time", "FFN-1", component="feed_forward")
def _(patch: Patch) -> None:
    """A thousandth of the mean over positions is added to each."""
    _replace_gating(patch, lambda gate, up: (h := F.silu(gate) * up) + 1e-3 * h.mean(1, True))


@mutant("feed-forward-centres-the-batch", "FFN-1", component="feed_forward")
def _(patch: Patch) -> None:
    """Hidden channels are centred over batch and time."""
    _replace_activation(patch, lambda up: F.relu(up - up.mean(dim=(0, 1))))


@mutant("feed-forward-knows-the-place", "FFN-1", component="feed_forward")
def _(patch: Patch) -> None:
    """The first position is left as it came through the activation, the others are shifted."""

    def shifted(up: Tensor) -> Tensor:
        hidden = F.relu(up)
        hidden[:, 1:] += 0.01
        return hidden

    _replace_activation(patch, shifted)


@mutant("gated-width-four-times", "FFN-3 FFN-4", component="feed_forward")
def _(patch: Patch) -> None:
    """The gated network keeps d_ff = 4·d, half as many parameters again."""
    patch.replace(
        reference_feed_forward.gated_width,
        lambda width, multiple=8: reference_feed_forward.round_up(4 * width, multiple),
    )


@mutant("gated-width-twice-reduced", "FFN-3 FFN-4", component="feed_forward")
def _(patch: Patch) -> None:
    """The factor 2/3 is applied twice."""
    patch.replace(
        reference_feed_forward.gated_width,
        lambda width, multiple=8: reference_feed_forward.round_up(
            math.ceil(16 * width / 9), multiple
        ),
    )


@mutant("gated-width-rounded-down", "FFN-4", component="feed_forward")
def _(patch: Patch) -> None:
    """8/3·d is rounded down."""
    patch.replace(
        reference_feed_forward.round_up, lambda value, multiple: int(value) // multiple * multiple
    )


@mutant("gated-width-always-a-step-more", "FFN-3 FFN-4", component="feed_forward")
def _(patch: Patch) -> None:
    """A width that needs no rounding gets a step more all the same."""
    patch.replace(
        reference_feed_forward.round_up,
        lambda value, multiple: (int(value) // multiple + 1) * multiple,
    )


@mutant("relu-network-without-relu", "FFN-5 RES-2", component="feed_forward")
def _(patch: Patch) -> None:
    """Two matrices in a row are one matrix."""
    _replace_activation(patch, lambda up: up)


@mutant("relu-network-leaks", "FFN-5", component="feed_forward")
def _(patch: Patch) -> None:
    """Negative channels pass at a hundredth."""
    _replace_activation(patch, lambda up: F.leaky_relu(up, 0.01))


@mutant("relu-network-narrow", "FFN-3 FFN-5", component="feed_forward")
def _(patch: Patch) -> None:
    """The hidden width is 2·d unless it is given."""
    original = reference_feed_forward.FeedForward.__init__

    def init(
        self: reference_feed_forward.FeedForward,
        width: int,
        hidden: int | None = None,
        **options: Any,
    ) -> None:
        original(self, width, hidden or 2 * width, **options)

    patch.method(reference_feed_forward.FeedForward, "__init__", init)


# -- in every host that has the seam ---------------------------------------------------------------


@feed_forward(
    "feed-forward-takes-the-one-before", "FFN-1", "feed_forward.position_wise", often="reference"
)
def _(own: Part) -> Tensor:
    """Each position is fed forward with the input of the position before it."""
    return own(x=own.x.roll(1, -2) if own.x.dim() > 1 else own.x)


@feed_forward("feed-forward-sees-the-sequence", "ATT-4", "feed_forward.position_wise")
def _(own: Part) -> Tensor:
    """The mean over the sequence is added to what the network reads."""
    return own(x=own.x + 0.1 * own.x.mean(-2, keepdim=True))


@feed_forward("feed-forward-averages-the-past", "FFN-1", "feed_forward.position_wise")
def _(own: Part) -> Tensor:
    """The network reads a running mean over the positions so far."""
    count = torch.arange(1, own.x.shape[-2] + 1, dtype=own.x.dtype)[:, None]
    return own(x=0.9 * own.x + 0.1 * own.x.cumsum(-2) / count)


@feed_forward("gradient-of-nan", "AUD-12", "loss.accumulation", component="gradient")
def _(own: Part) -> Tensor:
    """A square root is taken at exactly 0, where its slope is infinite."""
    return own() + (own.x - own.x).sqrt()


@feed_forward("feed-forward-centres-the-rows", "AUD-3", "batch.independence", component="batch")
def _(own: Part) -> Tensor:
    """What the network reads is centred over the batch."""
    return own(x=own.x - 0.1 * own.x.mean(0, keepdim=True))


@gate(
    "swiglu-activates-the-other-branch",
    "FFN-2",
    "feed_forward.branches",
    needs="gate",  # where no name says which branch is the gate, either may be
    source="ml-explore/mlx-lm#767",
    often="reference",
)
def _(own: Gate) -> Tensor:
    """The activation is applied to the linear branch, and the gate is left linear."""
    return own(gate=own.up, up=own.gate)


@gate("activation-of-the-product", "FFN-2", "feed_forward.form")
def _(own: Gate) -> Tensor:
    """The activation wraps the product of the two branches."""
    return F.silu(own.gate * own.up)


@gate("both-branches-activated", "FFN-2", "feed_forward.form")
def _(own: Gate) -> Tensor:
    """The branch that multiplies the gate is activated as well."""
    return F.silu(own.gate) * F.silu(own.up)


@gate(
    "swiglu-without-gate",
    "FFN-2",
    "feed_forward.branches",
    source="google-research/timesfm#493",
    often="reference",
)
def _(own: Gate) -> Tensor:
    """Only the activated branch is used; the other is computed and dropped."""
    return F.silu(own.gate)


@gate("swiglu-without-activation", "FFN-2", "feed_forward.nonlinear", often="reference")
def _(own: Gate) -> Tensor:
    """Both branches are linear, and added: three matrices make one."""
    return own.gate + own.up


@gate("swiglu-adds-its-branches", "FFN-2", "feed_forward.branches")
def _(own: Gate) -> Tensor:
    """The branches are added where they should be multiplied."""
    return F.silu(own.gate) + own.up


@gate("swiglu-by-sigmoid", "FFN-2", "declared.feed_forward", needs="profile")
def _(own: Gate) -> Tensor:
    """The gate passes a sigmoid, though the model says SiLU."""
    return own.gate.sigmoid() * own.up


@activation("activation-left-out", "FFN-2 FFN-5", "feed_forward.nonlinear")
def _(own: Part) -> Tensor:
    """The network is linear: two matrices make one."""
    return own.x


@activation("activation-is-relu", "FFN-2", "declared.feed_forward", needs="activation")
def _(own: Part) -> Tensor:
    """ReLU stands where the model says GELU."""
    return own.x.relu()
