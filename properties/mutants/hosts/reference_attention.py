"""Cuts into the attention, positions and masks of the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from theodolite.properties.mutants.hosts import seams
from theodolite.properties.mutants.hosts.seams import Change
from theodolite.properties.mutants.patching import Patch
from theodolite.reference import attention, model, rotary
from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.cache import LayerCache
from theodolite.reference.rotary import Rotation


def _one_way(patch: Patch) -> None:
    """Let what is changed be changed in the fused path too: both then write attention out."""

    def written_out(query: Tensor, key: Tensor, value: Tensor, **more: Any) -> Tensor:
        return attention.scaled_dot_product_attention(query, key, value, **more)

    patch.replace(attention.fused_attention, written_out)


def cut_scale(patch: Patch, change: Change) -> None:
    """The seam between head width and scale."""
    _one_way(patch)
    original = attention.attention_scores

    def changed(query: Tensor, key: Tensor, *, scale: float | None = None, **more: Any) -> Tensor:
        if scale is None:
            scale = change(seams.scale, query)
        return original(query, key, scale=scale, **more)

    patch.replace(original, changed)


def cut_scores(patch: Patch, change: Change) -> None:
    """The seam between queries, keys and scores."""
    _one_way(patch)
    original = attention.attention_scores

    def changed(query: Tensor, key: Tensor, *, scale: float | None = None, **more: Any) -> Any:
        scale = seams.scale(query) if scale is None else scale
        return change(lambda q, k, by: original(q, k, scale=by, **more), query, key, scale)

    patch.replace(original, changed)


def cut_weights(patch: Patch, change: Change) -> None:
    """The seam between scores and weights."""
    _one_way(patch)
    original = attention.attention_weights

    def changed(scores: Tensor, visible: Tensor | None = None) -> Any:
        return change(original, scores, visible)

    patch.replace(original, changed)


def cut_attend(patch: Patch, change: Change) -> None:
    """The seam between queries, keys, values and their means."""
    _one_way(patch)
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
        scale = seams.scale(query) if scale is None else scale
        return change(own, query, key, value, visible, scale)

    patch.replace(original, changed)


def cut_mix(patch: Patch, change: Change) -> None:
    """The seam between weights and means of values."""

    def attended(
        _: Any, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, by: float
    ) -> Any:
        shares = attention.attention_weights(
            attention.attention_scores(query, key, scale=by), visible
        )
        return change(seams.mix, shares, value)

    cut_attend(patch, attended)


def _around_attend(
    patch: Patch, groups: Callable[..., Any] = seams.groups, join: Callable[..., Any] = seams.join
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


def cut_split(patch: Patch, change: Change) -> None:
    """The seam between a projection and its heads."""

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, ...]:
        joined = change(seams.split, self.qkv(x), self.head_width)
        query, key, value = joined.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return self.query_norm(query), self.key_norm(key), value

    patch.method(MultiHeadAttention, "project", project)


def cut_rotary(patch: Patch, change: Change) -> None:
    """The seam between projection and product."""

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


def cut_frequencies(patch: Patch, change: Change) -> None:
    """The seam between base and frequencies."""
    original = rotary.rotary_frequencies

    def changed(
        width: int, *, base: float = 10000.0, interpolation: float = 1.0, **more: Any
    ) -> Any:
        own = change(lambda d, theta: original(d, base=theta, **more), width, base)
        return own / interpolation

    patch.replace(original, changed)


def cut_angles(patch: Patch, change: Change) -> None:
    """The seam between positions and cosines."""

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


def cut_positions(patch: Patch, change: Change) -> None:
    """The seam between a call and the positions of its tokens."""
    original = model._count_positions

    def changed(ids: Tensor, past: int, attention_mask: Tensor | None) -> Any:
        def own(length: int, read: int, padding: Tensor | None) -> Tensor:
            return original(ids[:, :1].expand(-1, length), read, padding)

        return change(own, ids.shape[1], past, attention_mask)

    patch.replace(original, changed)


def cut_triangle(patch: Patch, change: Change) -> None:
    """The seam between lengths and the causal mask."""
    original = attention.causal_mask

    def changed(queries: int, keys: int | None = None, *, device: Any = None) -> Any:
        keys = queries if keys is None else keys
        return change(lambda T, S: original(T, S, device=device), queries, keys)

    patch.replace(original, changed)


def cut_padding(patch: Patch, change: Change) -> None:
    """The seam between padding and what is visible."""
    original = model._visible_tokens
    patch.replace(original, partial(change, original))


def cut_groups(patch: Patch, change: Change) -> None:
    """The seam between key heads and query heads."""
    _around_attend(patch, groups=partial(change, seams.groups))


def cut_join(patch: Patch, change: Change) -> None:
    """The seam between heads and the output projection."""
    _around_attend(patch, join=partial(change, seams.join))
