"""Models of the transformers library as hosts, changed in this process alone.

Where the library's code has no place for a seam, its method is exchanged for an equal one that has.
"""

from __future__ import annotations

import importlib
from functools import cache, wraps
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from theodolite.properties.mutants.hosts.huggingface_attention import AttentionCuts
from theodolite.properties.mutants.hosts.seams import (
    Change,
    Cut,
    Host,
    built,
    extend,
    method,
    part,
    pre_norm,
    rewrite,
    swiglu,
    whole,
    written_out,
)
from theodolite.properties.mutants.patching import Patch


class Family(AttentionCuts):
    """Cuts into the blocks and the whole of one family."""

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

        patch.after_init(self.of("Model"), act)

    def block(self, owner: str, first: str, attention: str, second: str, feed_forward: str) -> Cut:
        """The seam that is a whole block, with its parts under these names."""

        def cut(patch: Patch, change: Change) -> None:
            def forward(self: Any, hidden_states: Tensor, *rest: Any, **options: Any) -> Any:
                if rest:
                    options["cache"], options["attention_mask"] = rest[:2]

                def attend(x: Tensor) -> Any:
                    return getattr(self, attention)(x, **options)[0]

                norm1, norm2, feed = (getattr(self, each) for each in (first, second, feed_forward))
                return change(pre_norm, hidden_states, norm1, attend, norm2, feed)

            layer = self.of(owner)
            patch.method(layer, "forward", forward)
            super(layer, layer).__init_subclass__()  # the library puts its checkpointing around it

        return cut

    def gate(self, patch: Patch, change: Change) -> None:
        """The seam between gate and up of llama's feed-forward."""

        def forward(self: Any, x: Tensor) -> Any:
            return self.down_proj(change(swiglu, self.gate_proj(x), self.up_proj(x)))

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
            def loss(
                logits: Tensor, labels: Tensor, *_: Any, num_items_in_batch: Any = None, **__: Any
            ) -> Any:
                shifted = F.pad(labels[:, 1:], (0, 1), value=-100)
                mean = change(_cross_entropy, logits, shifted)
                if num_items_in_batch is None:
                    return mean
                return mean * (shifted != -100).sum() / num_items_in_batch

            def act(model: Any) -> None:
                model.loss_function = loss

            patch.after_init(owner, act)

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


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100)


def _extend(patch: Patch, change: Change) -> None:
    owner = importlib.import_module("transformers.cache_utils").DynamicLayer

    def update(self: Any, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> Any:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        past = (self.keys, self.values) if self.keys.numel() else (None, None)
        self.keys, self.values = change(extend, *past, key_states, value_states)
        return self.keys, self.values

    patch.method(owner, "update", update)


def _llama_like(kind: str, prefix: str) -> dict[str, Cut]:
    family = Family(kind, prefix)
    model, causal = family.of("Model"), family.of("ForCausalLM")
    attend = family.attending("attend")

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
        "built": built(
            causal,
            embedding="model.embed_tokens",
            head="lm_head",
            blocks="model.layers",
            final_norm="model.norm",
        ),
        "loss": family.loss(causal),
        "extend": _extend,
        "generate": family.generate(causal),
    }
    if kind == "mixtral":
        found |= {"router": family.router, "experts": family.experts}
    else:
        found |= {"gate": family.gate, "feed_forward": method(family.of("MLP"), "forward")}
    return found


def _gpt2() -> dict[str, Cut]:
    family = Family("gpt2", "GPT2")
    model, causal = family.of("Model"), family.of("LMHeadModel")
    attend = family.attending("attend")

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
        "forward": whole(causal),
        "built": built(
            causal,
            embedding="transformer.wte",
            head="lm_head",
            blocks="transformer.h",
            final_norm="transformer.ln_f",
        ),
        "loss": family.loss(causal),
        "extend": _extend,
        "generate": family.generate(causal),
    }


@cache
def huggingface_hosts() -> tuple[Host, ...]:
    """Llama, gpt2 and mixtral. Imports transformers."""
    common = {"cache", "shift", "top_p", "end", "padded_writing", "checkpointing"}
    llama = common | {"gqa", "rmsnorm", "untied"}
    gpt2 = common | {"learned", "layernorm", "tied", "activation"}
    return (
        Host("llama", "hf:llama", _llama_like("llama", "Llama"), frozenset(llama | {"gate"})),
        Host("gpt2", "hf:gpt2", _gpt2(), frozenset(gpt2)),
        Host("mixtral", "hf:mixtral", _llama_like("mixtral", "Mixtral"), frozenset(llama)),
    )
