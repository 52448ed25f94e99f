"""Faults that show only inside a running model: outputs stay causal, finite and plausible."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, feed_forward, norm, rotary
from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.block import Block
from theodolite.reference.model import GPT
from theodolite.reference.rotary import Rotation

Projected = tuple[Tensor, Tensor, Tensor]


def _with_projected(patch: Patch, change: Callable[..., Projected]) -> None:
    """Let attention go on with ``change(query, key, value)``, not yet rotated."""
    original = MultiHeadAttention.project

    def project(self: MultiHeadAttention, x: Tensor) -> Projected:
        return change(*original(self, x))

    patch.method(MultiHeadAttention, "project", project)


@mutant(
    "values-are-the-keys",
    component="attention",
    breaks=("MHA-3",),
    source="yflyzhang/AnnotatedTransformer#1",
)
def _(patch: Patch) -> None:
    """Values are what the keys' part of the projection gives; their own part lies idle."""
    _with_projected(patch, lambda query, key, _: (query, key, key))


@mutant("second-head-copies-the-first", component="heads", breaks=("MHA-5",))
def _(patch: Patch) -> None:
    """The second head asks and answers with the first one's queries and keys."""

    def change(query: Tensor, key: Tensor, value: Tensor) -> Projected:
        if query.shape[1] < 2:
            return query, key, value
        order = [0, 0, *range(2, query.shape[1])]
        return query[:, order], key[:, order], value

    _with_projected(patch, change)


@mutant("one-head-takes-its-neighbours-keys", component="heads", breaks=("MHA-2",))
def _(patch: Patch) -> None:
    """Half of the first head's keys are those of the last: its scores follow no one's q·k."""
    original = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        found = original(query, key, **options)
        if query.dim() < 4 or query.shape[1] < 2:
            return found
        half = found[:, :1] * 0.5 + found[:, -1:] * 0.5
        return torch.cat([half, found[:, 1:]], 1)

    patch.replace(original, scores)


@mutant("softmax-over-heads", component="softmax", breaks=("ATT-2", "ATT-3"))
def _(patch: Patch) -> None:
    """Weights of one key sum to 1 over the heads, not over the keys of one query."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        return scores.softmax(-3 if scores.dim() > 3 else -1).nan_to_num()

    patch.replace(attention.attention_weights, weights)


@mutant("scores-times-root-d", component="scale", breaks=("SCL-5",))
def _(patch: Patch) -> None:
    """Scores are multiplied by the root of the head width where they should be divided."""
    original = attention.attention_scores

    def scores(query: Tensor, key: Tensor, *, scale: float | None = None, **more: Any) -> Tensor:
        return original(query, key, scale=scale or math.sqrt(query.shape[-1]), **more)

    patch.replace(original, scores)


@mutant("rotation-of-keys-reversed", component="rope", breaks=("ROPE-1", "ROPE-4"))
def _(patch: Patch) -> None:
    """Keys turn against the direction of the queries: scores depend on m + n."""
    original = MultiHeadAttention.forward

    def forward(self: MultiHeadAttention, x: Tensor, **options: Any) -> Tensor:
        rotation = options.get("rotation")
        if rotation is None:
            return original(self, x, **options)
        turn = rotary.apply_rotation
        back = Rotation(rotation.cosine, -rotation.sine, rotation.pairing)
        project = self.project

        def projected(stream: Tensor) -> Projected:
            query, key, value = project(stream)
            return turn(query, rotation), turn(key, back), value

        self.__dict__["project"] = projected
        try:
            return original(self, x, **{**options, "rotation": None})
        finally:
            del self.__dict__["project"]

    patch.method(MultiHeadAttention, "forward", forward)


@mutant(
    "model-turned-along-heads",
    component="rope",
    breaks=("ROPE-8",),
    source="facebookresearch/xformers#841",
)
def _(patch: Patch) -> None:
    """Heads are turned by their number, and positions not at all."""
    original = rotary.apply_rotation

    def turn(x: Tensor, rotation: Rotation) -> Tensor:
        if x.dim() < 4:
            return original(x, rotation)
        order = torch.arange(x.shape[1]).clamp_max(rotation.cosine.shape[-2] - 1)
        cosine, sine = (part[..., order, :] for part in rotation[:2])
        turned: Tensor = original(x.transpose(1, 2), Rotation(cosine, sine, rotation.pairing))
        return turned.transpose(1, 2)

    patch.replace(original, turn)


@mutant("frequencies-fall-in-a-straight-line", component="rope", breaks=("ROPE-3",))
def _(patch: Patch) -> None:
    """Pair i turns by 1 - 2i/d: the index is a factor, not part of the exponent."""

    def frequencies(width: int, *, device: Any = None, **_: Any) -> Tensor:
        index = torch.arange(0, width, 2, dtype=torch.float64, device=device)
        return 1 - index / width

    patch.replace(rotary.rotary_frequencies, frequencies)


@mutant("sum-of-squares-for-their-mean", component="norm", breaks=("NORM-3",))
def _(patch: Patch) -> None:
    """RMSNorm divides by the vector's length, √d times its RMS."""

    def forward(self: norm.RMSNorm, x: Tensor) -> Tensor:
        square = x.pow(2).sum(-1, keepdim=True)
        out: Tensor = x * torch.rsqrt(square + self.eps) * self.weight
        return out

    patch.method(norm.RMSNorm, "forward", forward)


@mutant("attention-output-lost", component="residual", breaks=("RES-3",))
def _(patch: Patch) -> None:
    """Attention is computed and its output never added."""

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        self.attention(self.attention_norm(x), **options)
        out: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return out

    patch.method(Block, "forward", forward)


@mutant("second-block-runs-first", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Blocks run from the last to the first."""
    original = GPT.forward

    def forward(self: GPT, *arguments: Any, **options: Any) -> Any:
        blocks = self.blocks
        self._modules["blocks"] = type(blocks)(reversed(list(blocks)))
        try:
            return original(self, *arguments, **options)
        finally:
            self._modules["blocks"] = blocks

    patch.method(GPT, "forward", forward)


@mutant("feed-forward-takes-the-one-before", component="feed_forward", breaks=("FFN-1",))
def _(patch: Patch) -> None:
    """Each position is fed forward with the input of the position before it."""
    original = feed_forward.SwiGLU.forward

    def forward(self: feed_forward.SwiGLU, x: Tensor) -> Tensor:
        return original(self, x.roll(1, -2) if x.dim() > 1 else x)

    patch.method(feed_forward.SwiGLU, "forward", forward)


@mutant("swiglu-without-activation", component="feed_forward", breaks=("FFN-2",))
def _(patch: Patch) -> None:
    """Both branches are linear, and added: three matrices make one."""

    def forward(self: feed_forward.SwiGLU, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.gate(x) + self.up(x))
        return out

    patch.method(feed_forward.SwiGLU, "forward", forward)
