"""Cuts into the attention of a model of transformers: its steps, positions and masks."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.hosts import seams
from theodolite.properties.mutants.hosts.seams import Change, Cut
from theodolite.properties.mutants.patching import Patch


class AttentionCuts:
    """Cuts into the attention of one family, whose classes all begin with `prefix`."""

    def __init__(self, kind: str, prefix: str) -> None:
        name = f"transformers.models.{kind}.modeling_{kind}"
        self.module: ModuleType = importlib.import_module(name)
        self.prefix = prefix

    def of(self, name: str) -> Any:
        """The class called prefix + name."""
        return getattr(self.module, self.prefix + name)

    def attending(self, step: str) -> Cut:
        """The seam `step` of what turns queries, keys and values into means, in any backend."""

        def cut(patch: Patch, change: Change) -> None:
            patch.value(self.module, "ALL_ATTENTION_FUNCTIONS", _Backends(step, change))

        return cut

    def scale(self, patch: Patch, change: Change) -> None:
        """The seam between head width and scale."""

        def scaled(
            own: Any, query: Tensor, key: Tensor, value: Tensor, visible: Any, by: float
        ) -> Any:
            return own(query, key, value, visible, change(lambda _: by, query))

        self.attending("attend")(patch, scaled)

    def pieces(self, seam: str) -> Cut:
        """The seams "project", "split", "rotary" and "join" of llama's attention."""

        def cut(patch: Patch, change: Change) -> None:
            pieces: dict[str, Callable[..., Any]] = {
                "split": seams.split,
                "rotary": _rotate,
                "join": seams.join,
            }
            if seam in pieces:
                pieces[seam] = partial(change, pieces[seam])
            steps = SimpleNamespace(**pieces)

            def project(self: Any, x: Tensor) -> tuple[Tensor, ...]:
                return tuple(
                    steps.split(layer(x), self.head_dim)
                    for layer in (self.q_proj, self.k_proj, self.v_proj)
                )

            def forward(
                attention: Any,
                hidden_states: Tensor,
                position_embeddings: Any = None,
                attention_mask: Any = None,
                cache: Any = None,
                **options: Any,
            ) -> Any:
                own = partial(project, attention)
                ask = partial(change, own) if seam == "project" else own
                query, key, value = ask(hidden_states)
                cosine, sine = (each.chunk(2, -1)[0][:, None] for each in position_embeddings)
                turned = steps.rotary(query, key, value, cosine, sine)
                mean = self._mean(attention, turned, cache, attention_mask, options)
                return attention.o_proj(steps.join(mean.transpose(1, 2))), None

            patch.method(self.of("Attention"), "forward", forward)

        return cut

    def fused_pieces(self, seam: str) -> Cut:
        """The seams "project", "split" and "join" of gpt2's attention."""

        def cut(patch: Patch, change: Change) -> None:
            split = partial(change, seams.split) if seam == "split" else seams.split
            join = partial(change, seams.join) if seam == "join" else seams.join

            def project(self: Any, x: Tensor) -> tuple[Tensor, ...]:
                return tuple(split(each, self.head_dim) for each in self.c_attn(x).chunk(3, -1))

            def forward(
                attention: Any,
                hidden_states: Tensor,
                cache: Any = None,
                attention_mask: Any = None,
                **options: Any,
            ) -> Any:
                own = partial(project, attention)
                ask = partial(change, own) if seam == "project" else own
                mean = self._mean(attention, ask(hidden_states), cache, attention_mask, options)
                joined = attention.c_proj(join(mean.transpose(1, 2)))
                return attention.resid_dropout(joined), None

            patch.method(self.of("Attention"), "forward", forward)

        return cut

    def _mean(self, attention: Any, projected: Any, cache: Any, mask: Any, options: Any) -> Tensor:
        """What the library's own attention gives, of the cache too, (B, T, H, d)."""
        query, key, value = projected
        if cache is not None:
            key, value = cache.update(key, value, attention.layer_idx)
        attend = self.module.ALL_ATTENTION_FUNCTIONS.get_interface(
            attention.config._attn_implementation, self.module.eager_attention_forward
        )
        for name in ("use_cache", "position_ids", "encoder_hidden_states", "output_attentions"):
            options.pop(name, None)
        mean: Tensor = attend(
            attention, query, key, value, mask, scaling=attention.scaling, **options
        )[0]
        return mean

    def frequencies(self, patch: Patch, change: Change) -> None:
        """The seam between configuration and frequencies."""
        owner = self.of("RotaryEmbedding")
        original = owner.compute_default_rope_parameters

        def compute(config: Any, **more: Any) -> Any:
            whole_head = getattr(config, "head_dim", None)
            width = whole_head or config.hidden_size // config.num_attention_heads
            base = config.rope_parameters["rope_theta"]

            def own(d: int, theta: float) -> Tensor:
                return 1.0 / (theta ** (torch.arange(0, d, 2, dtype=torch.float) / d))

            _, factor = original(config, **more)
            return change(own, width, base), factor

        patch.method(owner, "compute_default_rope_parameters", staticmethod(compute))

    def angles(self, patch: Patch, change: Change) -> None:
        """The seam between positions and cosines."""

        def own(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
            angles = positions[..., None].float() * frequencies.float()
            return angles.cos(), angles.sin()

        def forward(self: Any, x: Tensor, position_ids: Tensor) -> Any:
            table = change(own, position_ids, self.inv_freq)
            return tuple(torch.cat((each, each), -1).to(x.dtype) for each in table)

        patch.method(self.of("RotaryEmbedding"), "forward", forward)

    def positions(self, patch: Patch, change: Change) -> None:
        """The seam that counts positions; the library's forward does not look at the padding."""
        owner = self.of("Model")
        original = owner.forward

        def own(length: int, past: int, _: Any) -> Tensor:
            return torch.arange(past, past + length)

        @wraps(original)
        def forward(self: Any, input_ids: Any = None, *rest: Any, **options: Any) -> Any:
            if options.get("position_ids") is None and input_ids is not None:
                held = options.get("cache")
                past = 0 if held is None else held.get_seq_length()
                found = change(own, input_ids.shape[1], past, options.get("attention_mask"))
                options["position_ids"] = found if found.dim() == 2 else found[None]
            return original(self, input_ids, *rest, **options)

        patch.method(owner, "forward", forward)

    def mask(self, step: str) -> Cut:
        """The seams "triangle" and "padding" of the mask, in any backend."""

        def cut(patch: Patch, change: Change) -> None:
            own: dict[str, Any] = {"triangle": seams.triangle, "padding": seams.padding}
            steps = {**own, step: partial(change, own[step])}
            original = self.module.create_causal_mask

            def create(
                config: Any,
                inputs_embeds: Tensor,
                attention_mask: Tensor | None = None,
                cache: Any = None,
                **more: Any,
            ) -> Any:
                if attention_mask is not None and attention_mask.dim() != 2:
                    return original(config, inputs_embeds, attention_mask, cache, **more)
                length = inputs_embeds.shape[1]
                keys = length + (0 if cache is None else cache.get_seq_length())
                visible = steps["triangle"](length, keys)[None, None]
                if attention_mask is not None:
                    visible = visible & steps["padding"](attention_mask[:, :keys], length)
                visible = visible.expand(len(inputs_embeds), -1, -1, -1)
                if config._attn_implementation == "sdpa":
                    return visible
                lowest = torch.finfo(inputs_embeds.dtype).min
                return torch.zeros((), dtype=inputs_embeds.dtype).where(visible, lowest)

            patch.value(self.module, "create_causal_mask", create)

        return cut


class _Backends:
    """In place of the library's table of attention backends: each written with the seams."""

    def __init__(self, step: str, change: Change) -> None:
        self.step, self.change = step, change

    def get_interface(self, implementation: str, _: Any) -> Callable[..., Any]:
        """The attention that is called eager, sdpa ..."""
        own: dict[str, Callable[..., Any]] = {
            "groups": seams.groups,
            "attend": seams.attend if implementation == "eager" else _attend,
        }
        own[self.step] = partial(self.change, own[self.step])

        def attend(
            _: Any,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            attention_mask: Tensor | None,
            scaling: float | None = None,
            **__: Any,
        ) -> tuple[Tensor, None]:
            heads = query.shape[1]
            key, value = own["groups"](key, heads), own["groups"](value, heads)
            visible = attention_mask
            if visible is None and query.shape[2] > 1:
                visible = seams.triangle(query.shape[2], key.shape[2])
            elif visible is not None and visible.dtype != torch.bool:
                visible = visible > torch.finfo(visible.dtype).min / 2
            by = query.shape[-1] ** -0.5 if scaling is None else scaling
            mean = own["attend"](query, key, value, visible, by)
            return mean.transpose(1, 2).contiguous(), None

        return attend


def _attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, by: float) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, scale=by)


def _rotate(query: Tensor, key: Tensor, value: Tensor, cosine: Tensor, sine: Tensor) -> Any:
    def turn(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

    return turn(query), turn(key), value
