"""False declarations of sound models, and families that do not do what their configuration says."""

from __future__ import annotations

import copy
import importlib
from functools import wraps
from typing import Any

from theodolite.properties.mutants.registry import Patch, declared, library

declared("scale-declared-that-is-not-there", "SCL-5", "declared.scale", component="scale",
    says="A scale of 1/8 is declared of heads that are 8 wide.",
    declare={"scale": 0.125})  # fmt: skip
declared("soft-cap-declared-that-is-not-there", "STAB-3", "declared.soft_cap", component="scale",
    says="A soft cap of 30 is declared of scores that have none.",
    declare={"soft_cap": 30.0})  # fmt: skip
declared("key-heads-declared-that-are-not-there", "MHA-1", "declared.shape", component="heads",
    says="Three key heads are declared of a model with two.", declare={"kv_heads": 3})  # fmt: skip
declared("activation-declared-that-is-not-there", "FFN-2", "declared.feed_forward",
    component="feed_forward",
    says="A GELU is declared of a SwiGLU.", declare={"activation": "gelu"})  # fmt: skip
declared("experts-declared-that-are-not-there", "FFN-2", "declared.feed_forward",
    component="moe",
    says="Eight experts are declared of a model without any.", declare={"experts": 8})  # fmt: skip
declared("another-profile-declared", "POS-2", "declared.positions", component="position",
    says="The profile of GPT-2 is declared of a LLaMA.", declare={"profile": "gpt2"})  # fmt: skip
declared("another-scheme-of-positions-declared", "POS-2", "declared.positions",
    component="position",
    says="ALiBi is declared of rotary positions.", declare={"positions": "alibi"})  # fmt: skip
declared("another-pairing-declared", "ROPE-3", "declared.rope", component="rope",
    says="Half-split pairs are declared of an interleaved rotation.",
    declare={"rope_pairing": "half"})  # fmt: skip
declared("another-base-declared", "ROPE-3", "declared.rope", component="rope",
    says="A base of 500,000 is declared of one of 10,000.",
    declare={"rope_base": 500000.0})  # fmt: skip
declared("window-declared-that-is-not-there", "ATT-2", "declared.window", component="window",
    says="A window of 8 is declared of attention that sees all of the past.",
    declare={"window": 8})  # fmt: skip
declared("tie-declared-that-is-not-there", "AUD-9", "declared.tied", component="tying",
    says="Embedding and head are declared to be one matrix and are two.",
    declare={"tied": True})  # fmt: skip
declared("biases-declared-that-are-not-there", "NORM-6", "declared.norm", component="norm",
    says="Biases are declared of linear layers that have none.",
    declare={"bias": True})  # fmt: skip
declared("another-norm-declared", "NORM-1", "declared.norm", component="norm",
    says="A LayerNorm is declared of an RMSNorm.", declare={"norm": "layer"})  # fmt: skip
declared("another-epsilon-declared", "NORM-1", "declared.norm", component="norm",
    says="An epsilon of 1e-6 is declared of a norm that has 1e-5.",
    declare={"norm_eps": 1e-06})  # fmt: skip
declared("another-count-declared", "GPT-3", "parameters.formula", component="parameters",
    says="One parameter more is declared than a million, of a model that has far "
         "fewer.", declare={"parameters": 1000001})  # fmt: skip

# -- families of transformers ------------------------------------------------------------------


def _with_other_config(patch: Patch, family: str, owner: str, field: str, value: Any) -> None:
    """Build `owner` with a field of its configuration changed behind the model's back."""
    kind = getattr(importlib.import_module(f"transformers.models.{family}"), owner, None)
    kind = kind or getattr(_modeling(family), owner)
    original = kind.__init__

    @wraps(original)
    def init(self: Any, config: Any, *arguments: Any, **options: Any) -> None:
        before = getattr(config, field)
        setattr(config, field, value)
        original(self, config, *arguments, **options)
        setattr(config, field, before)

    patch.method(kind, "__init__", init)


def _with_other_rope(patch: Patch, owner: Any, **changes: Any) -> None:
    """Let a rotary embedding read other parameters than the configured ones."""
    original = owner.compute_default_rope_parameters

    def read(config: Any, *arguments: Any, **options: Any) -> Any:
        other = copy.deepcopy(config)
        other.rope_parameters.update(changes)
        return original(other, *arguments, **options)

    patch.method(owner, "compute_default_rope_parameters", staticmethod(read))


def _modeling(family: str) -> Any:
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}")


@library(
    "configured-base-ignored",
    "ROPE-3 ROPE-6",
    "declared.rope",
    model="llama",
    component="rope",
    settings={"rope_parameters": {"rope_theta": 500_000.0}},
)
def _(patch: Patch) -> None:
    """The rotation has the usual base, whatever is configured."""
    _with_other_rope(patch, _modeling("llama").LlamaRotaryEmbedding, rope_theta=10_000.0)


@library(
    "configured-interpolation-ignored",
    "ROPE-3 ROPE-6",
    "declared.rope",
    model="llama",
    component="rope",
    settings={"rope_parameters": {"rope_theta": 500_000.0, "rope_type": "linear", "factor": 4.0}},
)
def _(patch: Patch) -> None:
    """Frequencies are not divided by the configured factor."""
    modeling = _modeling("llama")
    plain = modeling.LlamaRotaryEmbedding.compute_default_rope_parameters
    patch.item(modeling.ROPE_INIT_FUNCTIONS, "linear", plain)


@library("partial-rotation-ignored", "ROPE-3", "declared.rope", model="phi", component="rope")
def _(patch: Patch) -> None:
    """All channels are turned, though half of them should be."""
    modeling = _modeling("phi")
    _with_other_rope(patch, modeling.PhiRotaryEmbedding, partial_rotary_factor=1.0)

    def widen(attention: Any) -> None:
        attention.rotary_ndims = attention.head_dim

    patch.after_init(modeling.PhiAttention, widen)


def _raise_attention_factor(patch: Patch, power: int) -> None:
    def change(rotary: Any) -> None:
        rotary.attention_scaling **= power

    patch.after_init(_modeling("llama").LlamaRotaryEmbedding, change)


@library(
    "attention-factor-dropped",
    "ROPE-2 ROPE-3",
    "declared.rope",
    model="llama",
    component="rope",
    settings={
        "head_dim": 16,
        "rope_parameters": {
            "rope_theta": 500_000.0,
            "rope_type": "yarn",
            "factor": 8.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 32.0,
        },
    },
)
def _(patch: Patch) -> None:
    """YaRN's factor on cosine and sine is left out."""
    _raise_attention_factor(patch, 0)


@library(
    "attention-factor-squared",
    "ROPE-2 ROPE-3",
    "declared.rope",
    model="llama",
    component="rope",
    settings={
        "head_dim": 16,
        "rope_parameters": {
            "rope_theta": 500_000.0,
            "rope_type": "yarn",
            "factor": 8.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 32.0,
        },
    },
)
def _(patch: Patch) -> None:
    """YaRN's factor on cosine and sine is applied twice."""
    _raise_attention_factor(patch, 2)


@library(
    "configured-window-ignored",
    "ATT-2",
    "declared.window",
    model="mistral",
    component="window",
    settings={"attn_implementation": "sdpa"},
)
def _(patch: Patch) -> None:
    """The library makes a causal mask where the configuration has a window."""
    modeling = _modeling("mistral")
    patch.value(modeling, "create_sliding_window_causal_mask", modeling.create_causal_mask)


@library(
    "configured-window-ignored-when-fused",
    "ATT-2",
    "window.field",
    model="mistral",
    component="window",
    settings={"attn_implementation": "eager"},
    source="unslothai/unsloth#8253",
)
def _(patch: Patch) -> None:
    """The library's mask for its fused operator has no window, whatever is configured."""
    modeling = _modeling("mistral")
    windowed = modeling.create_sliding_window_causal_mask

    def forgetful(*arguments: Any, **options: Any) -> Any:
        fused = options["config"]._attn_implementation == "sdpa"
        return (modeling.create_causal_mask if fused else windowed)(*arguments, **options)

    patch.value(modeling, "create_sliding_window_causal_mask", forgetful)


@library(
    "configured-soft-cap-dropped", "STAB-3", "declared.soft_cap", model="gemma2", component="scale"
)
def _(patch: Patch) -> None:
    """Scores are not capped, though the configuration says so."""
    _with_other_config(patch, "gemma2", "Gemma2Attention", "attn_logit_softcapping", None)


@library("configured-scale-ignored", "SCL-5", "declared.scale", model="granite", component="scale")
def _(patch: Patch) -> None:
    """Scores have another factor than the configured one."""
    _with_other_config(patch, "granite", "GraniteAttention", "attention_multiplier", 0.5)


@library(
    "latent-attention-without-its-factor",
    "SCL-5",
    "declared.scale",
    model="deepseek_v3",
    component="scale",
    settings={
        "attn_implementation": "eager",
        "rope_parameters": {
            "rope_theta": 10_000.0,
            "rope_type": "yarn",
            "factor": 8.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 32,
        },
    },
)
def _(patch: Patch) -> None:
    """YaRN's factor on the scale of latent attention is left out."""

    def plain(attention: Any) -> None:
        attention.scaling = attention.qk_head_dim**-0.5

    patch.after_init(_modeling("deepseek_v3").DeepseekV3Attention, plain)


@library(
    "configured-activation-ignored",
    "FFN-2",
    "declared.feed_forward",
    model="llama",
    component="feed_forward",
)
def _(patch: Patch) -> None:
    """The gate passes a GELU where the configuration says SiLU."""
    _with_other_config(patch, "llama", "LlamaMLP", "hidden_act", "gelu")


@library(
    "configured-experts-ignored", "FFN-2", "declared.feed_forward", model="mixtral", component="moe"
)
def _(patch: Patch) -> None:
    """One expert works on each token, whatever number is configured."""
    for owner in ("MixtralTopKRouter", "MixtralSparseMoeBlock"):
        _with_other_config(patch, "mixtral", owner, "num_experts_per_tok", 1)
