"""Faults of half precision, of backward, of what runs twice or in another mode."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.host import REFERENCE
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, rotary
from theodolite.reference.block import Block
from theodolite.reference.model import GPT
from theodolite.reference.norm import RMSNorm


def _rotate_by(patch: Patch, angles_of: Any) -> None:
    """Compute angles by `angles_of`(positions, frequencies, dtype of the model)."""
    running = [torch.float32]
    original, rotation = GPT.forward, rotary.Rotary.forward

    @wraps(original)
    def forward(self: GPT, *arguments: Any, **options: Any) -> Any:
        running[0] = self.embedding.weight.dtype
        return original(self, *arguments, **options)

    def rotate(self: rotary.Rotary, positions: Tensor) -> rotary.Rotation:
        frequencies = rotary.rotary_frequencies(self.width, base=self.base)
        angles = angles_of(positions, frequencies, running[0])
        exact = rotation(self, positions)
        return rotary.Rotation(
            angles.cos().to(exact.cosine), angles.sin().to(exact.sine), self.pairing
        )

    patch.method(GPT, "forward", forward)
    patch.method(rotary.Rotary, "forward", rotate)


@mutant(
    "angles-in-half-precision",
    component="dtype",
    breaks=("AUD-8",),
    source="EleutherAI/gpt-neox#1003",
)
def _(patch: Patch) -> None:
    """Angles are multiplied in the dtype of the weights: far out bfloat16 has lost them."""
    _rotate_by(patch, lambda at, by, dtype: at[..., None].to(dtype) * by.to(dtype))


@mutant(
    "positions-in-half-precision",
    component="dtype",
    breaks=("AUD-8",),
    source="huggingface/transformers#25681",
)
def _(patch: Patch) -> None:
    """Positions are cast to the dtype of the weights: from 256 on bfloat16 leaves some out."""
    _rotate_by(patch, lambda at, by, dtype: at[..., None].to(dtype).double() * by)


@mutant("angles-under-autocast", component="dtype", breaks=("AUD-8",))
def _(patch: Patch) -> None:
    """Angles are a matrix product, positions by frequencies, which autocast takes in bfloat16."""
    _rotate_by(patch, lambda at, by, _dtype: at[..., None].float() @ by.float()[None])


@mutant("bias-on-all-scores", component="dtype", breaks=("AUD-8",))
def _(patch: Patch) -> None:
    """A thousand is added to every score: softmax does not mind, but eight bits do."""
    original = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        return original(query, key, **options) + 1e3

    patch.replace(original, scores)


@mutant("mask-of-zero-times-infinity", component="dtype", breaks=("AUD-8",))
def _(patch: Patch) -> None:
    """Hidden keys get -1e9 by multiplication: in float16 that is infinite, and 0 times it NaN."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            fill = torch.tensor(-1e9, dtype=torch.float64).to(scores.dtype)
            scores = scores + (~visible).to(scores.dtype) * fill
        return scores.softmax(dim=-1)

    patch.replace(attention.attention_weights, weights)


@mutant("squares-past-65504", component="dtype", breaks=("AUD-8",))
def _(patch: Patch) -> None:
    """RMSNorm squares values 256 times too large, in their own dtype: float16 ends at 65504."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        wide = x * 256
        root = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 65536 * self.eps)
        return wide * root * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant(
    "eval-on-a-path-of-its-own",
    component="backend",
    breaks=("AUD-7",),
    source="pytorch/pytorch#107084",
)
def _(patch: Patch) -> None:
    """Where nothing is to be learned, attention takes a path that scales its queries once more."""
    original = attention.MultiHeadAttention.attend

    def attend(
        self: attention.MultiHeadAttention, query: Tensor, *arguments: Tensor, **options: Any
    ) -> Tensor:
        fast = query if self.training else query / 2
        return original(self, fast, *arguments, **options)

    patch.method(attention.MultiHeadAttention, "attend", attend)


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        return gradients[0] * up * gate.sigmoid(), gradients[0] * F.silu(gate)


@mutant("gate-backward-by-hand", component="gradient", breaks=("AUD-12",))
def _(patch: Patch) -> None:
    """SwiGLU's own backward takes σ for the derivative of SiLU."""
    REFERENCE.wrap("gate", lambda _, gate, up: _Gated.apply(gate, up), patch)  # type: ignore[no-untyped-call]


@mutant("norm-statistics-detached", component="gradient", breaks=("AUD-12",))
def _(patch: Patch) -> None:
    """RMSNorm divides by a root mean square that no gradient passes."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        root = torch.rsqrt(wide.detach().square().mean(dim=-1, keepdim=True) + self.eps)
        return (wide * root).to(x.dtype) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("stream-detached-in-part", component="gradient", breaks=("AUD-12",))
def _(patch: Patch) -> None:
    """Every block hands on half of its gradient: half of its input is detached."""
    original = Block.forward

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        return original(self, x / 2 + x.detach() / 2, **options)

    patch.method(Block, "forward", forward)


@mutant("queries-detached", component="gradient", breaks=("AUD-12",))
def _(patch: Patch) -> None:
    """Scores send no gradient to the stream through queries, only to the keys."""
    original = attention.MultiHeadAttention.project

    def project(self: attention.MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query = original(self, x.detach())[0]
        return query, *original(self, x)[1:]

    patch.method(attention.MultiHeadAttention, "project", project)
