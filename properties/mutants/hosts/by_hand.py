"""The two models written by hand, as hosts; the second also with experts and a window."""

from __future__ import annotations

from functools import wraps
from typing import Any

from torch import Tensor

from theodolite.properties.mutants.hosts import grouped, nano
from theodolite.properties.mutants.hosts.seams import (
    Change,
    Cut,
    Host,
    built,
    function,
    method,
    part,
    pre_norm,
    whole,
    written_out,
)
from theodolite.properties.mutants.patching import Patch


def _nano_block(patch: Patch, change: Change) -> None:
    def forward(self: Any, x: Tensor) -> Any:
        return change(pre_norm, x, self.ln_1, self.attn, self.ln_2, self.mlp)

    patch.method(nano.Block, "forward", forward)


def _grouped_block(patch: Patch, change: Change) -> None:
    def forward(self: Any, x: Tensor, *rest: Any) -> Any:
        kept = []

        def attention(stream: Tensor) -> Tensor:
            mixed, present = self.attention(stream, *rest)
            kept.append(present)
            out: Tensor = mixed
            return out

        x = change(pre_norm, x, self.norm1, attention, self.norm2, self.ff)
        return x, kept[-1]

    patch.method(grouped.Layer, "forward", forward)


def _positions(patch: Patch, change: Change) -> None:
    def position_ids(T: int) -> Any:
        return change(lambda length, _past, _padding: original(length), T, 0, None)

    original = nano.position_ids
    patch.value(nano, "position_ids", position_ids)


def _distribution(patch: Patch, change: Change) -> None:
    def probabilities(logits: Tensor, temperature: float, top_k: int | None) -> Any:
        return change(lambda *given: original(*given[:3]), logits, temperature, top_k, None)

    original = nano.next_token_probs
    patch.value(nano, "next_token_probs", probabilities)


def writing(owner: type) -> Cut:
    """The seam is a method generate(ids, max_new_tokens, ...)."""

    def cut(patch: Patch, change: Change) -> None:
        original = owner.generate  # type: ignore[attr-defined]

        @wraps(original)
        def generate(
            self: Any, ids: Tensor, max_new_tokens: int, *rest: Any, **options: Any
        ) -> Any:
            def go_on(tokens: Tensor, count: int, chosen: dict[str, Any]) -> Any:
                return original(self, tokens, count, *rest, **chosen)

            return change(go_on, ids, max_new_tokens, options)

        patch.method(owner, "generate", generate)

    return cut


NANO = Host(
    name="nano",
    spec="theodolite.properties.mutants.hosts.nano:build",
    features=frozenset({"learned", "layernorm", "tied", "dropout", "profile", "activation"}),
    declarations={"profile": "gpt2", "activation": "gelu", "targets": "next"},
    seams={
        "scale": function(nano, "attention_scale"),
        "attend": function(nano, "attend"),
        **written_out(function(nano, "attend")),
        "triangle": function(nano, "tril"),
        "project": method(nano.SelfAttention, "qkv"),
        "split": function(nano, "split_heads"),
        "join": function(nano, "merge_heads"),
        "positions": _positions,
        "lookup": part(nano.NanoGPT, "wpe"),
        "norm": function(nano, "layer_norm"),
        "final_norm": part(nano.NanoGPT, "ln_f"),
        "embed": part(nano.NanoGPT, "wte"),
        "head": part(nano.NanoGPT, "lm_head"),
        "block": _nano_block,
        "feed_forward": method(nano.MLP, "forward"),
        "activation": function(nano, "gelu"),
        "dropout": function(nano, "dropout"),
        "forward": whole(nano.NanoGPT),
        "built": built(
            nano.NanoGPT, embedding="wte", head="lm_head", blocks="h", final_norm="ln_f"
        ),
        "loss": function(nano, "cross_entropy"),
        "distribution": _distribution,
        "crop": function(nano, "crop"),
        "generate": writing(nano.NanoGPT),
    },
)

_GROUPED: dict[str, Cut] = {
    "scale": function(grouped, "head_scale"),
    "scores": function(grouped, "scores"),
    "weights": function(grouped, "weights"),
    "mix": function(grouped, "mix"),
    "attend": function(grouped, "attend"),
    "groups": function(grouped, "repeat_kv"),
    "triangle": function(grouped, "causal"),
    "padding": function(grouped, "visible_tokens"),
    "project": method(grouped.Attention, "project"),
    "split": function(grouped, "split_heads"),
    "join": function(grouped, "join_heads"),
    "rotary": function(grouped, "rotate"),
    "frequencies": function(grouped, "inverse_frequencies"),
    "angles": function(grouped, "cos_sin"),
    "positions": function(grouped, "positions_of"),
    "norm": function(grouped, "rms_norm"),
    "final_norm": part(grouped.Decoder, "norm"),
    "embed": part(grouped.Decoder, "tokens"),
    "head": part(grouped.Decoder, "output"),
    "block": _grouped_block,
    "feed_forward": method(grouped.FeedForward, "forward"),
    "gate": function(grouped, "swiglu"),
    "forward": whole(grouped.Decoder),
    "built": built(
        grouped.Decoder, embedding="tokens", head="output", blocks="layers", final_norm="norm"
    ),
    "loss": function(grouped, "next_token_loss"),
    "extend": function(grouped, "extend"),
    "distribution": function(grouped, "draw_from"),
    "crop": function(grouped, "cut"),
    "generate": writing(grouped.Decoder),
}

GROUPED = Host(
    name="grouped",
    spec="theodolite.properties.mutants.hosts.grouped:build",
    features=frozenset(
        {
            "gqa",
            "rmsnorm",
            "cache",
            "shift",
            "untied",
            "profile",
            "top_p",
            "end",
            "padded_writing",
            "meta",
        }
    ),
    seams=_GROUPED,
    declarations={
        "profile": "llama",
        "rope_base": 10000.0,
        "rope_magnitude": 1.0,
        "groups": "neighbours",
        "meta_device": True,
        "longest": 44,
    },
)

MIXTURE = Host(
    name="mixture",
    spec="theodolite.properties.mutants.hosts.grouped:build_mixture",
    declarations={"window": 6, "experts": 5, "active_experts": 2},
    features=frozenset({"cache"}),
    seams={
        "router": function(grouped, "route"),
        "experts": method(grouped.Experts, "mixture"),
        "window": function(grouped, "within"),
        "triangle": function(grouped, "causal"),
        "extend": function(grouped, "extend"),
    },
)
