"""Faults by which a whole model sees the future, or not enough of the past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.places import Triangle, triangle
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
    "ATT-4",
    "training.leak causality.shapes",
    component="mask",
    source="facebookresearch/xformers#103",
)
def _(patch: Patch) -> None:
    """The triangle is applied only where a padding mask is given too."""

    def change(options: dict[str, Any]) -> None:
        options["causal"] = options["causal"] and options["mask"] is not None

    _with_attend(patch, change)


@mutant(
    "mask-dropped-by-all-ones",
    "ATT-4",
    "padding.ones",
    component="mask",
    source="huggingface/transformers#48748",
)
def _(patch: Patch) -> None:
    """A padding mask that hides nothing replaces the triangle."""

    def change(options: dict[str, Any]) -> None:
        if options["mask"] is not None and bool(options["mask"].all()):
            options.update(mask=None, causal=False)

    _with_attend(patch, change)


@mutant("mask-only-in-evaluation", "ATT-4", "causality.gradient", component="mask")
def _(patch: Patch) -> None:
    """While training, nothing is hidden."""
    original = MultiHeadAttention.attend

    def attend(self: MultiHeadAttention, *projected: Tensor, **options: Any) -> Tensor:
        options["causal"] = options["causal"] and not self.training
        return original(self, *projected, **options)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("mask-missing-when-fused", "ATT-4", "causality.gradient", component="mask")
def _(patch: Patch) -> None:
    """The fused operator is called without its triangle; the explicit path is right."""
    original = attention.fused_attention

    def fused(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return original(query, key, value, **{**options, "causal": False})

    patch.replace(original, fused)


@mutant("attention-not-added", "ATT-5", "causality.past", component="attention")
def _(patch: Patch) -> None:
    """What attention computed is multiplied by zero: a bigram model."""
    original = MultiHeadAttention.forward

    def forward(self: MultiHeadAttention, x: Tensor, **options: Any) -> Tensor:
        return 0 * original(self, x, **options)

    patch.method(MultiHeadAttention, "forward", forward)


@mutant("position-in-the-last-block", "AUD-1", "positions.constant_sequence", component="position")
def _(patch: Patch) -> None:
    """A number that grows with position is added before the final norm."""
    patch.after_init(model.GPT, lambda gpt: gpt.norm.register_forward_pre_hook(_add_position))


def _add_position(_module: torch.nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    x = inputs[0]
    count = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)[:, None]
    channel = torch.zeros(x.shape[-1], device=x.device, dtype=x.dtype)
    channel[0] = 0.1
    return (x + count * channel,)


@mutant("order-not-told", "ORD-4", "positions.order_matters", component="position")
def _(patch: Patch) -> None:
    """No rotation, and every query sees every key: a bag of words."""
    _with_mask(patch, lambda q, k, device: torch.ones(q, k, device=device).bool())
    patch.replace(rotary.apply_rotation, lambda x, _rotation: x)


# -- in every host that has the seam ---------------------------------------------------------------


@triangle(
    "mask-transposed", "ATT-4 AUD-2", "causality.past", source="pytorch/examples#649", often="nano"
)
def _(own: Triangle) -> Tensor:
    """Each position sees itself and what comes after it."""
    return torch.ones(own.queries, own.keys, dtype=torch.bool).triu(own.keys - own.queries)


@triangle("mask-missing", "ATT-4 AUD-2", "inside.no_weight_on_the_future")
def _(own: Triangle) -> Tensor:
    """Every position sees every other."""
    return torch.ones(own.queries, own.keys, dtype=torch.bool)


@triangle("mask-shows-the-next", "ATT-2 AVG-3", "inside.no_weight_on_the_future", often="reference")
def _(own: Triangle) -> Tensor:
    """The triangle reaches one position too far."""
    return torch.ones(own.queries, own.keys, dtype=torch.bool).tril(own.keys - own.queries + 1)


@triangle(
    "mask-in-blocks-of-four", "ATT-4 AUD-2", "inside.no_weight_on_the_future padding.causality"
)
def _(own: Triangle) -> Tensor:
    """Positions of one block of four see each other, the later ones too."""
    block = torch.arange(own.keys) // 4
    return block[None] <= block[own.keys - own.queries :, None]


@triangle("mask-shows-the-last-key", "ATT-4 AUD-2", "inside.no_weight_on_the_future")
def _(own: Triangle) -> Tensor:
    """The last column is left open: everybody sees the last token."""
    visible: Tensor = own().clone()
    visible[:, -1] = True
    return visible


@triangle("past-hidden-but-the-first", "ATT-5", "causality.past", component="attention")
def _(own: Triangle) -> Tensor:
    """Each position sees itself and the first, and nothing between."""
    itself = torch.ones(own.queries, own.keys, dtype=torch.bool).triu(own.keys - own.queries)
    itself[:, 0] = True
    return itself & own()


@triangle("itself-hidden", "ATT-9", "inside.itself", often="reference nano")
def _(own: Triangle) -> Tensor:
    """The triangle ends before the diagonal: all but the first see what is before them alone."""
    queries = torch.arange(own.keys - own.queries, own.keys)[:, None]
    itself = queries == torch.arange(own.keys)
    return own() & ~(itself & (queries > 0))


@triangle(
    "triangle-lined-up-with-the-first-key",
    "GEN-4",
    "cache.chunks",
    needs="cache",
    source="time-series-foundation-models/lag-llama#81",
)
def _(own: Triangle) -> Tensor:
    """Behind a cache the first new query sees the first key alone, the second two, and so on."""
    return torch.ones(own.queries, own.keys, dtype=torch.bool).tril()


@triangle("chunk-sees-itself-whole", "GEN-4", "cache.chunks", needs="cache")
def _(own: Triangle) -> Tensor:
    """Tokens that are read together behind a cache see each other, the later ones too."""
    if own.keys == own.queries:
        visible: Tensor = own()
        return visible
    return torch.ones(own.queries, own.keys, dtype=torch.bool)


@triangle("diagonal-hidden", "ATT-4 ATT-5", "inside.itself")
def _(own: Triangle) -> Tensor:
    """Positions do not see themselves, but for the first."""
    order = torch.arange(own.keys - own.queries, own.keys)[:, None]
    key = torch.arange(own.keys)
    return (key < order) | ((key == 0) & (order == 0))
