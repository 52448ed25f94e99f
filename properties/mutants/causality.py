"""Faults by which a whole model sees the future, or not enough of the past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, model, rotary
from theodolite.reference.attention import MultiHeadAttention

MaskMaker = Callable[[int, int, Any], Tensor]


def _with_mask(patch: Patch, make: MaskMaker) -> None:
    def mask(queries: int, keys: int | None = None, *, device: Any = None) -> Tensor:
        return make(queries, queries if keys is None else keys, device)

    patch.replace(attention.causal_mask, mask)


def _with_weights(patch: Patch, weigh: Callable[[Tensor, Tensor], Tensor]) -> None:
    original = attention.attention_weights

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        return original(scores) if visible is None else weigh(scores, visible)

    patch.replace(original, weights)


def _with_attend(patch: Patch, change: Callable[[dict[str, Any]], None]) -> None:
    """Let `change` alter the keyword arguments of every attention."""
    original = MultiHeadAttention.attend

    def attend(self: MultiHeadAttention, *projected: Tensor, **options: Any) -> Tensor:
        change(options)
        return original(self, *projected, **options)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant(
    "mask-only-with-padding",
    component="mask",
    breaks=("ATT-4",),
    source="facebookresearch/xformers#103",
)
def _(patch: Patch) -> None:
    """The triangle is applied only where a padding mask is given too."""

    def change(options: dict[str, Any]) -> None:
        options["causal"] = options["causal"] and options["mask"] is not None

    _with_attend(patch, change)


@mutant(
    "mask-dropped-by-all-ones",
    component="mask",
    breaks=("ATT-4",),
    source="huggingface/transformers#48748",
)
def _(patch: Patch) -> None:
    """A padding mask that hides nothing replaces the triangle."""

    def change(options: dict[str, Any]) -> None:
        if options["mask"] is not None and bool(options["mask"].all()):
            options.update(mask=None, causal=False)

    _with_attend(patch, change)


@mutant("mask-only-in-evaluation", component="mask", breaks=("ATT-4",))
def _(patch: Patch) -> None:
    """While training, nothing is hidden."""
    original = MultiHeadAttention.attend

    def attend(self: MultiHeadAttention, *projected: Tensor, **options: Any) -> Tensor:
        options["causal"] = options["causal"] and not self.training
        return original(self, *projected, **options)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("mask-missing-when-fused", component="mask", breaks=("ATT-4",))
def _(patch: Patch) -> None:
    """The fused operator is called without its triangle; the explicit path is right."""
    original = attention.fused_attention

    def fused(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return original(query, key, value, **{**options, "causal": False})

    patch.replace(original, fused)


@mutant("heads-joined-without-transposing", component="heads", breaks=("ATT-4", "AUD-2"))
def _(patch: Patch) -> None:
    """(B, H, T, d) is flattened to (B, T, H·d) as it lies: positions and heads are scrambled."""
    original = MultiHeadAttention.attend

    def attend(self: MultiHeadAttention, *projected: Tensor, **options: Any) -> Tensor:
        joined = original(self, *projected, **options)
        B, T, C = joined.shape
        apart = joined.view(B, T, self.heads, self.head_width).transpose(1, 2)
        return apart.reshape(B, T, C)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("attention-not-added", component="attention", breaks=("ATT-5",))
def _(patch: Patch) -> None:
    """What attention computed is multiplied by zero: a bigram model."""
    original = MultiHeadAttention.forward

    def forward(self: MultiHeadAttention, x: Tensor, **options: Any) -> Tensor:
        return 0 * original(self, x, **options)

    patch.method(MultiHeadAttention, "forward", forward)


@mutant("values-rotated", component="rope", breaks=("AUD-1",))
def _(patch: Patch) -> None:
    """Values are rotated by their position, like queries and keys."""
    original = MultiHeadAttention.forward

    def forward(self: MultiHeadAttention, x: Tensor, **options: Any) -> Tensor:
        rotation: Any = options.get("rotation")
        project = type(self).project

        def turned(module: MultiHeadAttention, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            query, key, value = project(module, y)
            return query, key, rotary.apply_rotation(value, rotation)

        if rotation is not None:
            self.project = turned.__get__(self)  # type: ignore[method-assign]
        try:
            return original(self, x, **options)
        finally:
            self.__dict__.pop("project", None)

    patch.method(MultiHeadAttention, "forward", forward)


@mutant("mask-after-softmax-in-the-model", component="softmax", breaks=("AUD-1",))
def _(patch: Patch) -> None:
    """Later weights are set to zero after softmax: rows sum to less than 1."""
    _with_weights(patch, lambda scores, seen: scores.softmax(-1) * seen)


@mutant("position-in-the-last-block", component="position", breaks=("AUD-1",))
def _(patch: Patch) -> None:
    """A number that grows with position is added before the final norm."""
    patch.after_init(model.GPT, lambda gpt: gpt.norm.register_forward_pre_hook(_add_position))


def _add_position(_module: torch.nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    x = inputs[0]
    count = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)[:, None]
    channel = torch.zeros(x.shape[-1], device=x.device, dtype=x.dtype)
    channel[0] = 0.1
    return (x + count * channel,)


@mutant("order-not-told", component="position", breaks=("ORD-4",))
def _(patch: Patch) -> None:
    """No rotation, and every query sees every key: a bag of words."""
    _with_mask(patch, lambda q, k, device: torch.ones(q, k, device=device).bool())
    patch.replace(rotary.apply_rotation, lambda x, _rotation: x)
