"""The reference as a host: grouped keys, awkward sizes, everything else as the article has it."""

from __future__ import annotations

import inspect
from functools import partial, wraps
from typing import Any

from torch import Tensor

from theodolite.properties.mutants.hosts.reference_attention import (
    cut_angles,
    cut_attend,
    cut_frequencies,
    cut_groups,
    cut_join,
    cut_mix,
    cut_padding,
    cut_positions,
    cut_rotary,
    cut_scale,
    cut_scores,
    cut_split,
    cut_triangle,
    cut_weights,
)
from theodolite.properties.mutants.hosts.seams import (
    Change,
    Host,
    built,
    extend,
    method,
    part,
    pre_norm,
    swiglu,
    whole,
)
from theodolite.properties.mutants.patching import Patch
from theodolite.reference import generation, loss, norm
from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.block import Block
from theodolite.reference.cache import LayerCache
from theodolite.reference.config import GPTConfig
from theodolite.reference.feed_forward import SwiGLU
from theodolite.reference.model import GPT


def build() -> GPT:
    """A small reference with awkward sizes."""
    return GPT(GPTConfig(vocabulary=59, width=48, layers=3, heads=6, kv_heads=2))


def _norm(patch: Patch, change: Change) -> None:
    original = norm.RMSNorm.forward

    def forward(self: norm.RMSNorm, x: Tensor) -> Any:
        return change(lambda stream, *_: original(self, stream), x, self.weight, None, self.eps)

    patch.method(norm.RMSNorm, "forward", forward)


def _block(patch: Patch, change: Change) -> None:
    original = Block.forward

    def forward(self: Block, x: Tensor, **options: Any) -> Any:
        if not self.pre_norm:
            return original(self, x, **options)
        return change(
            pre_norm,
            x,
            self.attention_norm,
            partial(self.attention, **options),
            self.feed_forward_norm,
            self.feed_forward,
        )

    patch.method(Block, "forward", forward)


def _gate(patch: Patch, change: Change) -> None:
    def forward(self: SwiGLU, x: Tensor) -> Any:
        return self.down(change(swiglu, self.gate(x), self.up(x)))

    patch.method(SwiGLU, "forward", forward)


def _extend(patch: Patch, change: Change) -> None:
    def extended(self: LayerCache, key: Tensor, value: Tensor) -> Any:
        self.key, self.value = change(extend, self.key, self.value, key, value)
        return self.key, self.value

    patch.method(LayerCache, "extend", extended)


def _loss(patch: Patch, change: Change) -> None:
    original = loss.token_loss

    def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Any:
        def own(given: Tensor, wanted: Tensor) -> Tensor:
            return original(given, wanted, ignore_index)

        return change(own, logits, targets)

    patch.replace(original, token_loss)


def _distribution(patch: Patch, change: Change) -> None:
    original = generation.distribution

    def own(logits: Tensor, by: float, k: int | None, p: float | None) -> Tensor:
        return original(logits, temperature=by, top_k=k, top_p=p)

    def distribution(
        logits: Tensor,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Any:
        return change(own, logits, temperature, top_k, top_p)

    patch.replace(original, distribution)


def _generate(patch: Patch, change: Change) -> None:
    original = generation.generate

    @wraps(original)
    def generate(*given: Any, **named: Any) -> Any:
        bound = inspect.signature(original).bind(*given, **named)
        gpt, ids, count = bound.args

        def go_on(tokens: Tensor, length: int, chosen: dict[str, Any]) -> Tensor:
            return original(gpt, tokens, length, **chosen)

        return change(go_on, ids, count, bound.kwargs)

    patch.replace(original, generate)


REFERENCE = Host(
    name="reference",
    spec="theodolite.properties.mutants.hosts.reference_host:build",
    features=frozenset(
        {"gqa", "rmsnorm", "cache", "untied", "profile", "top_p", "end", "meta", "gate"}
    ),
    declarations={
        "profile": "llama",
        "rope_base": 10000.0,
        "rope_magnitude": 1.0,
        "groups": "neighbours",
        "targets": "next",
        "meta_device": True,
    },
    seams={
        "scale": cut_scale,
        "scores": cut_scores,
        "weights": cut_weights,
        "mix": cut_mix,
        "attend": cut_attend,
        "groups": cut_groups,
        "join": cut_join,
        "project": method(MultiHeadAttention, "project"),
        "split": cut_split,
        "rotary": cut_rotary,
        "frequencies": cut_frequencies,
        "angles": cut_angles,
        "positions": cut_positions,
        "triangle": cut_triangle,
        "padding": cut_padding,
        "norm": _norm,
        "final_norm": part(GPT, "norm"),
        "embed": part(GPT, "embedding"),
        "head": part(GPT, "head"),
        "block": _block,
        "feed_forward": method(SwiGLU, "forward"),
        "gate": _gate,
        "forward": whole(GPT),
        "built": built(GPT, embedding="embedding", head="head", blocks="blocks", final_norm="norm"),
        "loss": _loss,
        "extend": _extend,
        "distribution": _distribution,
        "generate": _generate,
    },
)
