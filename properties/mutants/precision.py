"""Faults of half precision, of backward, of what runs twice or in another mode."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.hosts import REFERENCE
from theodolite.properties.mutants.registry import Patch, mutant, source
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
    "AUD-8",
    "precision.late",
    component="dtype",
    source="EleutherAI/gpt-neox#1003",
)
def _(patch: Patch) -> None:
    """Angles are multiplied in the dtype of the weights: far out bfloat16 has lost them."""
    _rotate_by(patch, lambda at, by, dtype: at[..., None].to(dtype) * by.to(dtype))


@mutant(
    "positions-in-half-precision",
    "AUD-8",
    "precision.late",
    component="dtype",
    source="huggingface/transformers#25681",
)
def _(patch: Patch) -> None:
    """Positions are cast to the dtype of the weights: from 256 on bfloat16 leaves some out."""
    _rotate_by(patch, lambda at, by, dtype: at[..., None].to(dtype).double() * by)


@mutant("angles-under-autocast", "AUD-8", "precision.late", component="dtype")
def _(patch: Patch) -> None:
    """Angles are a matrix product, positions by frequencies, which autocast takes in bfloat16."""
    _rotate_by(patch, lambda at, by, _dtype: at[..., None].float() @ by.float()[None])


@mutant("bias-on-all-scores", "AUD-8", "precision.autocast precision.half", component="dtype")
def _(patch: Patch) -> None:
    """A thousand is added to every score: softmax does not mind, but eight bits do."""
    original = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        return original(query, key, **options) + 1e3

    patch.replace(original, scores)


@mutant("mask-of-zero-times-infinity", "AUD-8", "precision.half", component="dtype")
def _(patch: Patch) -> None:
    """Hidden keys get -1e9 by multiplication: in float16 that is infinite, and 0 times it NaN."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            fill = torch.tensor(-1e9, dtype=torch.float64).to(scores.dtype)
            scores = scores + (~visible).to(scores.dtype) * fill
        return scores.softmax(dim=-1)

    patch.replace(attention.attention_weights, weights)


@mutant("squares-past-65504", "AUD-8", "precision.half", component="dtype")
def _(patch: Patch) -> None:
    """RMSNorm squares values 256 times too large, in their own dtype: float16 ends at 65504."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        wide = x * 256
        root = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 65536 * self.eps)
        return wide * root * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant(
    "eval-on-a-path-of-its-own",
    "AUD-7",
    "backend.modes",
    component="backend",
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


@mutant("gate-backward-by-hand", "AUD-12", "gradient.slope", component="gradient")
def _(patch: Patch) -> None:
    """SwiGLU's own backward takes σ for the derivative of SiLU."""
    REFERENCE.wrap("gate", lambda _, gate, up: _Gated.apply(gate, up), patch)  # type: ignore[no-untyped-call]


@mutant("norm-statistics-detached", "AUD-12", "gradient.slope", component="gradient")
def _(patch: Patch) -> None:
    """RMSNorm divides by a root mean square that no gradient passes."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        root = torch.rsqrt(wide.detach().square().mean(dim=-1, keepdim=True) + self.eps)
        return (wide * root).to(x.dtype) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("stream-detached-in-part", "AUD-12", "gradient.slope", component="gradient")
def _(patch: Patch) -> None:
    """Every block hands on half of its gradient: half of its input is detached."""
    original = Block.forward

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        return original(self, x / 2 + x.detach() / 2, **options)

    patch.method(Block, "forward", forward)


@mutant("queries-detached", "AUD-12", "gradient.slope", component="gradient")
def _(patch: Patch) -> None:
    """Scores send no gradient to the stream through queries, only to the keys."""
    original = attention.MultiHeadAttention.project

    def project(self: attention.MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query = original(self, x.detach())[0]
        return query, *original(self, x)[1:]

    patch.method(attention.MultiHeadAttention, "project", project)


# -- in the text of hosts ---------------------------------------------------------------


source("angles-rounded-to-half-precision", "AUD-8", "precision.late", component="dtype",
    says="Angles are rounded to the dtype of the weights before their cosine and "
         "sine are taken.")  # fmt: skip
source("scores-kept-in-eight-bits", "AUD-8", "precision.half", component="dtype",
    says="Scores are kept in eight bits of mantissa.")  # fmt: skip
source("norm-backward-without-its-projection", "AUD-12", "gradient.slope", component="gradient",
    says="The norm's own backward leaves the projection out.")  # fmt: skip
source("norm-backward-with-the-wrong-sign", "AUD-12", "gradient.slope", component="gradient",
    says="The norm's own backward adds its projection where it should subtract it.")  # fmt: skip
source("gain-gradient-averaged-over-rows", "AUD-12", "gradient.slope", component="gradient",
    says="The norm's own backward takes the mean over rows for their sum.")  # fmt: skip
source("gradient-handed-on-as-it-comes", "AUD-12", "gradient.slope", component="gradient",
    says="A function's own backward hands the gradient on as if it did nothing.")  # fmt: skip
source("queries-or-keys-detached", "AUD-12", "gradient.slope", component="gradient",
    says="Queries, or keys, are detached before their product.")  # fmt: skip
source("checkpoint-draws-dropout-anew", "AUD-12", "gradient.checkpointing", component="gradient",
    says="A checkpoint's second forward draws its dropout anew.")  # fmt: skip
source("checkpoint-without-its-rotation", "AUD-12", "gradient.checkpointing", component="gradient",
    says="A checkpointed layer runs without its rotation.")  # fmt: skip
source("checkpoint-without-its-mask", "AUD-12", "gradient.checkpointing", component="gradient",
    says="A checkpointed layer runs without its mask.")  # fmt: skip
source("second-forward-sees-the-first", "AUD-12", "gradient.checkpointing", component="gradient",
    says="A layer counts its calls and divides by their number: a checkpoint's "
         "second forward is another function.")  # fmt: skip
source("checkpoint-of-a-detached-input", "AUD-12", "gradient.checkpointing", component="gradient",
    says="A checkpointed layer is given its input without a gradient.")  # fmt: skip
