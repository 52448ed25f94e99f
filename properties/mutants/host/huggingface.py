"""Models of the transformers library as hosts, changed in this process alone.

Where the library's code has no place for a seam, its method is exchanged for an equal one that has.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, partial, wraps
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from theodolite.properties.mutants.host import seams
from theodolite.properties.mutants.host.seams import (
    Change,
    Cut,
    Host,
    Parts,
    after_init,
    built,
    method,
    part,
    rewrite,
    whole,
    written_out,
)
from theodolite.properties.mutants.patching import Patch


class Family:
    """Cuts into one family's module, whose classes all begin with `prefix`."""

    def __init__(self, kind: str, prefix: str) -> None:
        name = f"transformers.models.{kind}.modeling_{kind}"
        self.module: ModuleType = importlib.import_module(name)
        self.prefix = prefix

    def of(self, name: str) -> Any:
        """The class called prefix + name."""
        return getattr(self.module, self.prefix + name)

    # -- attention -----------------------------------------------------------------------------

    def attending(self, step: str) -> Cut:
        """The seam `step` of what turns queries, keys and values into means, in any backend."""

        def cut(patch: Patch, change: Change) -> None:
            patch.value(self.module, "ALL_ATTENTION_FUNCTIONS", _Backends(step, change))

        return cut

    def scale(self, patch: Patch, change: Change) -> None:
        """The seam between head width and scale."""

        def changed(query: Tensor, key: Any, value: Any, visible: Any, by: float, own: Any) -> Any:
            return own(query, key, value, visible, change(lambda _: by, query))

        def cut(
            own: Any, query: Tensor, key: Tensor, value: Tensor, visible: Any, by: float
        ) -> Any:
            return changed(query, key, value, visible, by, own)

        self.attending("attend")(patch, cut)

    def pieces(self, seam: str) -> Cut:
        """The seams "project", "split", "rotary" and "join" of llama's attention."""

        def cut(patch: Patch, change: Change) -> None:
            own = {"project": None, "split": _split, "rotary": _rotate, "join": _join}
            steps = SimpleNamespace(**own)
            if seam != "project":
                setattr(steps, seam, partial(change, own[seam]))

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
                projected = partial(project, attention)
                if seam == "project":
                    query, key, value = change(projected, hidden_states)
                else:
                    query, key, value = projected(hidden_states)
                cosine, sine = (each.chunk(2, -1)[0][:, None] for each in position_embeddings)
                query, key, value = steps.rotary(query, key, value, cosine, sine)
                if cache is not None:
                    key, value = cache.update(key, value, attention.layer_idx)
                mean = self._mean(attention, query, key, value, attention_mask, options)
                return attention.o_proj(steps.join(mean.transpose(1, 2))), None

            patch.method(self.of("Attention"), "forward", forward)

        return cut

    def fused_pieces(self, seam: str) -> Cut:
        """The seams "project", "split" and "join" of gpt2's attention."""

        def cut(patch: Patch, change: Change) -> None:
            split = partial(change, _split) if seam == "split" else _split
            join = partial(change, _join) if seam == "join" else _join

            def project(self: Any, x: Tensor) -> tuple[Tensor, ...]:
                return tuple(split(each, self.head_dim) for each in self.c_attn(x).chunk(3, -1))

            def forward(
                attention: Any,
                hidden_states: Tensor,
                cache: Any = None,
                attention_mask: Any = None,
                **options: Any,
            ) -> Any:
                projected = partial(project, attention)
                if seam == "project":
                    query, key, value = change(projected, hidden_states)
                else:
                    query, key, value = projected(hidden_states)
                if cache is not None:
                    key, value = cache.update(key, value, attention.layer_idx)
                mean = self._mean(attention, query, key, value, attention_mask, options)
                joined = attention.c_proj(join(mean.transpose(1, 2)))
                return attention.resid_dropout(joined), None

            patch.method(self.of("Attention"), "forward", forward)

        return cut

    def _mean(
        self, attention: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, options: Any
    ) -> Tensor:
        """What the library's own attention gives, (B, T, H, d)."""
        attend = self.module.ALL_ATTENTION_FUNCTIONS.get_interface(
            attention.config._attn_implementation, self.module.eager_attention_forward
        )
        for name in ("use_cache", "position_ids", "encoder_hidden_states", "output_attentions"):
            options.pop(name, None)
        mean: Tensor = attend(
            attention, query, key, value, mask, scaling=attention.scaling, **options
        )[0]
        return mean

    # -- positions and masks -------------------------------------------------------------------

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
                if config._attn_implementation != "eager":
                    return visible
                lowest = torch.finfo(inputs_embeds.dtype).min
                return torch.zeros((), dtype=inputs_embeds.dtype).where(visible, lowest)

            patch.value(self.module, "create_causal_mask", create)

        return cut

    # -- blocks and model ----------------------------------------------------------------------

    def rms_norm(self, patch: Patch, change: Change) -> None:
        """The seam that every RMSNorm of the family is."""
        owner = self.of("RMSNorm")
        original = owner.forward

        def forward(self: Any, hidden_states: Tensor) -> Any:
            def own(x: Tensor, *_: Any) -> Any:
                return original(self, x)

            return change(own, hidden_states, self.weight, None, self.variance_epsilon)

        patch.method(owner, "forward", forward)

    def layer_norm(self, patch: Patch, change: Change) -> None:
        """The seam that every LayerNorm of the family is."""

        def forward(own: Any, self: Any, x: Tensor) -> Any:
            return change(lambda given, *_: own(given), x, self.weight, self.bias, self.eps)

        def act(model: nn.Module) -> None:
            for module in model.modules():
                if isinstance(module, nn.LayerNorm):
                    rewrite(module, forward)

        after_init(patch, self.of("Model"), act)

    def dropout(self, patch: Patch, change: Change) -> None:
        """The seam that every nn.Dropout of the family is."""

        def forward(_: Any, self: Any, x: Tensor) -> Any:
            return change(F.dropout, x, self.p, self.training)

        def act(model: nn.Module) -> None:
            for module in model.modules():
                if isinstance(module, nn.Dropout):
                    rewrite(module, forward)

        after_init(patch, self.of("Model"), act)

    def block(self, owner: str, first: str, attention: str, second: str, feed_forward: str) -> Cut:
        """The seam that is a whole block, with its parts under these names."""

        def own(x: Tensor, norm1: Any, attend: Any, norm2: Any, feed: Any) -> Any:
            x = x + attend(norm1(x))
            return x + feed(norm2(x))

        def cut(patch: Patch, change: Change) -> None:
            def forward(self: Any, hidden_states: Tensor, *rest: Any, **options: Any) -> Any:
                if rest:
                    options["cache"], options["attention_mask"] = rest[:2]

                def attend(x: Tensor) -> Any:
                    return getattr(self, attention)(x, **options)[0]

                parts = (getattr(self, name) for name in (first, second, feed_forward))
                norm1, norm2, feed = parts
                return change(own, hidden_states, norm1, attend, norm2, feed)

            patch.method(self.of(owner), "forward", forward)

        return cut

    def gate(self, patch: Patch, change: Change) -> None:
        """The seam between gate and up of llama's feed-forward."""

        def own(gate: Tensor, up: Tensor) -> Tensor:
            return F.silu(gate) * up

        def forward(self: Any, x: Tensor) -> Any:
            return self.down_proj(change(own, self.gate_proj(x), self.up_proj(x)))

        patch.method(self.of("MLP"), "forward", forward)

    def router(self, patch: Patch, change: Change) -> None:
        """The seam between router logits and experts."""

        def own(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
            top, chosen = logits.float().softmax(-1).topk(k, dim=-1)
            return top / top.sum(-1, keepdim=True), chosen

        def forward(self: Any, hidden_states: Tensor) -> Any:
            logits = F.linear(hidden_states.reshape(-1, self.hidden_dim), self.weight)
            shares, chosen = change(own, logits, self.top_k)
            return logits, shares, chosen

        patch.method(self.of("TopKRouter"), "forward", forward)

    def experts(self, patch: Patch, change: Change) -> None:
        """The seam at which tokens go through their experts."""
        owner = self.of("Experts")
        original = owner.forward

        @wraps(original)
        def forward(self: Any, x: Tensor, chosen: Tensor, shares: Tensor) -> Any:
            def own(tokens: Tensor, by: Tensor, numbers: Tensor) -> Any:
                return original(self, tokens, numbers, by)

            return change(own, x, shares, chosen)

        patch.method(owner, "forward", forward)

    def loss(self, owner: type) -> Cut:
        """The seam between logits and loss."""

        def cut(patch: Patch, change: Change) -> None:
            def loss(logits: Tensor, labels: Tensor, *_: Any, **__: Any) -> Any:
                return change(_cross_entropy, logits, F.pad(labels[:, 1:], (0, 1), value=-100))

            def act(model: Any) -> None:
                model.loss_function = loss

            after_init(patch, owner, act)

        return cut

    def generate(self, owner: type) -> Cut:
        """The seam that is the method generate."""

        def cut(patch: Patch, change: Change) -> None:
            original = owner.generate  # type: ignore[attr-defined]

            @wraps(original)
            def generate(self: Any, inputs: Tensor, *rest: Any, **options: Any) -> Any:
                def go_on(tokens: Tensor, count: int, chosen: dict[str, Any]) -> Any:
                    chosen = {**chosen, "max_new_tokens": count}
                    return original(self, tokens, *rest, **chosen)

                return change(go_on, inputs, options.pop("max_new_tokens"), options)

            patch.override(owner, "generate", generate)

        return cut


class _Backends:
    """In place of the library's table of attention backends: each written with the seams."""

    def __init__(self, step: str, change: Change) -> None:
        self.step, self.change = step, change

    def get_interface(self, implementation: str, _: Any) -> Callable[..., Any]:
        """The attention that is called eager, sdpa ..."""
        own: dict[str, Callable[..., Any]] = {
            "groups": _repeat,
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


def _repeat(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _split(x: Tensor, width: int) -> Tensor:
    return x.view(*x.shape[:2], -1, width).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _rotate(query: Tensor, key: Tensor, value: Tensor, cosine: Tensor, sine: Tensor) -> Any:
    def turn(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

    return turn(query), turn(key), value


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100)


def _extend(patch: Patch, change: Change) -> None:
    owner = importlib.import_module("transformers.cache_utils").DynamicLayer

    def own(past_key: Any, past_value: Any, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if past_key is None:
            return key, value
        return torch.cat((past_key, key), -2), torch.cat((past_value, value), -2)

    def update(self: Any, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> Any:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        past = (self.keys, self.values) if self.keys.numel() else (None, None)
        self.keys, self.values = change(own, *past, key_states, value_states)
        return self.keys, self.values

    patch.method(owner, "update", update)


def _llama_like(kind: str, prefix: str) -> dict[str, Cut]:
    family = Family(kind, prefix)
    model, causal = family.of("Model"), family.of("ForCausalLM")
    attend = family.attending("attend")

    def parts(whole_model: Any) -> Parts:
        inner = whole_model.model
        return Parts(
            whole_model,
            inner.embed_tokens,
            whole_model.lm_head,
            inner,
            "layers",
            inner.norm,
        )

    found: dict[str, Cut] = {
        "scale": family.scale,
        "groups": family.attending("groups"),
        "attend": attend,
        **written_out(attend),
        **{seam: family.pieces(seam) for seam in ("project", "split", "rotary", "join")},
        "frequencies": family.frequencies,
        "angles": family.angles,
        "positions": family.positions,
        "triangle": family.mask("triangle"),
        "padding": family.mask("padding"),
        "norm": family.rms_norm,
        "final_norm": part(model, "norm"),
        "embed": part(model, "embed_tokens"),
        "head": part(causal, "lm_head"),
        "block": family.block(
            "DecoderLayer", "input_layernorm", "self_attn", "post_attention_layernorm", "mlp"
        ),
        "forward": whole(causal),
        "built": built(causal, parts),
        "loss": family.loss(causal),
        "extend": _extend,
        "generate": family.generate(causal),
    }
    if kind == "mixtral":
        found |= {
            "router": family.router,
            "experts": family.experts,
        }
    else:
        found |= {"gate": family.gate, "feed_forward": method(family.of("MLP"), "forward")}
    return found


def _gpt2() -> dict[str, Cut]:
    family = Family("gpt2", "GPT2")
    model, causal = family.of("Model"), family.of("LMHeadModel")
    attend = family.attending("attend")

    def parts(whole_model: Any) -> Parts:
        inner = whole_model.transformer
        return Parts(
            whole_model,
            inner.wte,
            whole_model.lm_head,
            inner,
            "h",
            inner.ln_f,
        )

    return {
        "scale": family.scale,
        "attend": attend,
        **written_out(attend),
        **{seam: family.fused_pieces(seam) for seam in ("project", "split", "join")},
        "positions": family.positions,
        "lookup": part(model, "wpe"),
        "triangle": family.mask("triangle"),
        "padding": family.mask("padding"),
        "norm": family.layer_norm,
        "final_norm": part(model, "ln_f"),
        "embed": part(model, "wte"),
        "head": part(causal, "lm_head"),
        "block": family.block("Block", "ln_1", "attn", "ln_2", "mlp"),
        "feed_forward": method(family.of("MLP"), "forward"),
        "activation": part(family.of("MLP"), "act"),
        "dropout": family.dropout,
        "forward": whole(causal),
        "built": built(causal, parts),
        "loss": family.loss(causal),
        "extend": _extend,
        "generate": family.generate(causal),
    }


@cache
def huggingface_hosts() -> tuple[Host, ...]:
    """Llama, gpt2 and mixtral. Imports transformers."""
    common = {"cache", "shift", "top_p", "end", "padded_writing"}
    llama = common | {"rotary", "gqa", "rmsnorm", "untied"}
    return (
        Host("llama", "hf:llama", _llama_like("llama", "Llama"), frozenset(llama), "transformers"),
        Host(
            "gpt2",
            "hf:gpt2",
            _gpt2(),
            frozenset(common | {"learned", "layernorm", "tied", "dropout", "activation"}),
        ),
        Host(
            "mixtral",
            "hf:mixtral",
            _llama_like("mixtral", "Mixtral"),
            frozenset(llama),
        ),
    )
