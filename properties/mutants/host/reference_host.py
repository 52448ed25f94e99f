"""The reference as a host: grouped keys, awkward sizes, everything else as the article has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.host.seams import (
    WRITTEN_OUT,
    Change,
    Host,
    Parts,
    built,
    method,
    part,
    whole,
)
from theodolite.properties.mutants.patching import Patch
from theodolite.reference import attention, generation, loss, model, norm, rotary
from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.block import Block
from theodolite.reference.cache import LayerCache
from theodolite.reference.config import GPTConfig
from theodolite.reference.feed_forward import SwiGLU
from theodolite.reference.model import GPT
from theodolite.reference.rotary import Rotation


def build() -> GPT:
    """A small reference with awkward sizes."""
    return GPT(GPTConfig(vocabulary=59, width=48, layers=3, heads=6, kv_heads=2))


# -- inside attention --------------------------------------------------------------------------


def _scale(patch: Patch, change: Change) -> None:
    original = attention.attention_scores

    def changed(query: Tensor, key: Tensor, *, scale: float | None = None, **more: Any) -> Tensor:
        if scale is None:
            scale = change(lambda rows: 1 / math.sqrt(rows.shape[-1]), query)
        return original(query, key, scale=scale, **more)

    patch.replace(original, changed)


def _scores(patch: Patch, change: Change) -> None:
    original = attention.attention_scores

    def changed(query: Tensor, key: Tensor, *, scale: float | None = None, **more: Any) -> Any:
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        return change(lambda q, k, by: original(q, k, scale=by, **more), query, key, scale)

    patch.replace(original, changed)


def _weights(patch: Patch, change: Change) -> None:
    original = attention.attention_weights

    def changed(scores: Tensor, visible: Tensor | None = None) -> Any:
        return change(original, scores, visible)

    patch.replace(original, changed)


def _attend(patch: Patch, change: Change) -> None:
    original = attention.scaled_dot_product_attention

    def changed(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
        softcap: float | None = None,
    ) -> Any:
        def own(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, by: float) -> Tensor:
            return original(q, k, v, mask=seen, scale=by, softcap=softcap)

        visible = attention._visible(query, key, mask, causal=causal)
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        return change(own, query, key, value, visible, scale)

    patch.replace(original, changed)


def _mix(patch: Patch, change: Change) -> None:
    def attended(
        _: Any, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, by: float
    ) -> Any:
        shares = attention.attention_weights(
            attention.attention_scores(query, key, scale=by), visible
        )
        return change(WRITTEN_OUT["mix"], shares, value)

    _attend(patch, attended)


def _grouped(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _split(x: Tensor, width: int) -> Tensor:
    return x.view(*x.shape[:2], -1, width).transpose(1, 2)


def _around_attend(
    patch: Patch, groups: Callable[..., Any] = _grouped, join: Callable[..., Any] = _joined
) -> None:
    def attend(
        self: MultiHeadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None,
        causal: bool,
    ) -> Any:
        if self.kv_heads < self.heads:
            key, value = groups(key, self.heads), groups(value, self.heads)
        mean = attention.scaled_dot_product_attention(
            query, key, value, mask=mask, causal=causal, softcap=self.softcap
        )
        return join(mean)

    patch.method(MultiHeadAttention, "attend", attend)


def _split_heads(patch: Patch, change: Change) -> None:
    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, ...]:
        joined = change(_split, self.qkv(x), self.head_width)
        query, key, value = joined.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return self.query_norm(query), self.key_norm(key), value

    patch.method(MultiHeadAttention, "project", project)


def _rotary(patch: Patch, change: Change) -> None:
    def forward(
        self: MultiHeadAttention,
        x: Tensor,
        *,
        rotation: Rotation | None = None,
        mask: Tensor | None = None,
        causal: bool = True,
        cache: LayerCache | None = None,
    ) -> Any:
        query, key, value = self.project(x)
        if rotation is not None:
            pairing = rotation.pairing

            def own(q: Tensor, k: Tensor, v: Tensor, cosine: Tensor, sine: Tensor) -> Any:
                turn = Rotation(cosine, sine, pairing)
                return rotary.apply_rotation(q, turn), rotary.apply_rotation(k, turn), v

            query, key, value = change(own, query, key, value, rotation.cosine, rotation.sine)
        if cache is not None:
            key, value = cache.extend(key, value)
        return self.output(self.attend(query, key, value, mask=mask, causal=causal))

    patch.method(MultiHeadAttention, "forward", forward)


# -- positions and masks -----------------------------------------------------------------------


def _frequencies(patch: Patch, change: Change) -> None:
    original = rotary.rotary_frequencies

    def changed(
        width: int, *, base: float = 10000.0, interpolation: float = 1.0, **more: Any
    ) -> Any:
        own = change(lambda d, theta: original(d, base=theta, **more), width, base)
        return own / interpolation

    patch.replace(original, changed)


def _angles(patch: Patch, change: Change) -> None:
    def own(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions[..., None] * frequencies
        return angles.cos(), angles.sin()

    def changed(
        positions: Tensor,
        width: int,
        *,
        base: float = 10000.0,
        pairing: Any = "interleaved",
        interpolation: float = 1.0,
    ) -> Rotation:
        frequencies = rotary.rotary_frequencies(
            width, base=base, interpolation=interpolation, device=positions.device
        )
        cosine, sine = change(own, positions, frequencies)
        return Rotation(cosine, sine, pairing)

    patch.replace(rotary.rotation_at, changed)


def _positions(patch: Patch, change: Change) -> None:
    original = model._count_positions

    def changed(ids: Tensor, past: int, attention_mask: Tensor | None) -> Any:
        def own(length: int, read: int, padding: Tensor | None) -> Tensor:
            return original(ids[:, :1].expand(-1, length), read, padding)

        return change(own, ids.shape[1], past, attention_mask)

    patch.replace(original, changed)


def _triangle(patch: Patch, change: Change) -> None:
    original = attention.causal_mask

    def changed(queries: int, keys: int | None = None, *, device: Any = None) -> Any:
        keys = queries if keys is None else keys
        return change(lambda T, S: original(T, S, device=device), queries, keys)

    patch.replace(original, changed)


def _padding(patch: Patch, change: Change) -> None:
    original = model._visible_tokens
    patch.replace(original, partial(change, original))


# -- blocks and model --------------------------------------------------------------------------


def _norm(patch: Patch, change: Change) -> None:
    original = norm.RMSNorm.forward

    def forward(self: norm.RMSNorm, x: Tensor) -> Any:
        return change(lambda stream, *_: original(self, stream), x, self.weight, None, self.eps)

    patch.method(norm.RMSNorm, "forward", forward)


def _block(patch: Patch, change: Change) -> None:
    original = Block.forward

    def own(x: Tensor, first: Any, attending: Any, second: Any, feed_forward: Any) -> Tensor:
        x = x + attending(first(x))
        out: Tensor = x + feed_forward(second(x))
        return out

    def forward(self: Block, x: Tensor, **options: Any) -> Any:
        if not self.pre_norm:
            return original(self, x, **options)
        return change(
            own,
            x,
            self.attention_norm,
            partial(self.attention, **options),
            self.feed_forward_norm,
            self.feed_forward,
        )

    patch.method(Block, "forward", forward)


def _gate(patch: Patch, change: Change) -> None:
    def own(gate: Tensor, up: Tensor) -> Tensor:
        return torch.nn.functional.silu(gate) * up

    def forward(self: SwiGLU, x: Tensor) -> Any:
        return self.down(change(own, self.gate(x), self.up(x)))

    patch.method(SwiGLU, "forward", forward)


def _extend(patch: Patch, change: Change) -> None:
    def own(past_key: Any, past_value: Any, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if past_key is None:
            return key, value
        return torch.cat((past_key, key), -2), torch.cat((past_value, value), -2)

    def extend(self: LayerCache, key: Tensor, value: Tensor) -> Any:
        self.key, self.value = change(own, self.key, self.value, key, value)
        return self.key, self.value

    patch.method(LayerCache, "extend", extend)


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
    def generate(gpt: GPT, ids: Tensor, new_tokens: int, **options: Any) -> Any:
        def go_on(tokens: Tensor, count: int, chosen: dict[str, Any]) -> Tensor:
            return original(gpt, tokens, count, **chosen)

        return change(go_on, ids, new_tokens, options)

    patch.replace(original, generate)


def _parts(gpt: Any) -> Parts:
    return Parts(
        gpt,
        gpt.embedding,
        gpt.head,
        gpt,
        "blocks",
        gpt.norm,
    )


REFERENCE = Host(
    name="reference",
    spec="theodolite.properties.mutants.host.reference_host:build",
    features=frozenset({"rotary", "gqa", "rmsnorm", "cache", "untied", "profile", "top_p", "end"}),
    declarations={"profile": "llama", "rope_base": 10000.0, "groups": "neighbours"},
    seams={
        "scale": _scale,
        "scores": _scores,
        "weights": _weights,
        "mix": _mix,
        "attend": _attend,
        "groups": lambda patch, change: _around_attend(patch, groups=partial(change, _grouped)),
        "join": lambda patch, change: _around_attend(patch, join=partial(change, _joined)),
        "project": method(MultiHeadAttention, "project"),
        "split": _split_heads,
        "rotary": _rotary,
        "frequencies": _frequencies,
        "angles": _angles,
        "positions": _positions,
        "triangle": _triangle,
        "padding": _padding,
        "norm": _norm,
        "final_norm": part(GPT, "norm"),
        "embed": part(GPT, "embedding"),
        "head": part(GPT, "head"),
        "block": _block,
        "feed_forward": method(SwiGLU, "forward"),
        "gate": _gate,
        "forward": whole(GPT),
        "built": built(GPT, _parts),
        "loss": _loss,
        "extend": _extend,
        "distribution": _distribution,
        "generate": _generate,
    },
)
