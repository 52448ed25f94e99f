"""TransformerLens: HookedTransformer, its options one at a time."""

from functools import partial

SIZES = {
    "n_layers": 2,
    "d_model": 48,
    "n_ctx": 48,
    "d_head": 8,
    "n_heads": 6,
    "d_vocab": 61,
    "act_fn": "gelu_new",
    "device": "cpu",
}
LLAMA = {
    "positional_embedding_type": "rotary",
    "rotary_dim": 8,
    "normalization_type": "RMS",
    "act_fn": "silu",
    "gated_mlp": True,
}
OPTIONS = {
    "GPT-2": {},
    "GPT-2, folded norms": {"normalization_type": "LNPre"},
    "no norm": {"normalization_type": None},
    "attention alone": {"attn_only": True},
    "solu": {"act_fn": "solu_ln"},
    "parallel": {"parallel_attn_mlp": True},
    "no scale": {"use_attn_scale": False},
    "shortformer": {"positional_embedding_type": "shortformer"},
    "alibi": {"positional_embedding_type": "alibi"},
    "GPT-J": {
        "positional_embedding_type": "rotary",
        "rotary_dim": 4,
        "rotary_adjacent_pairs": True,
        "parallel_attn_mlp": True,
    },
    "GPT-NeoX": {"positional_embedding_type": "rotary", "rotary_dim": 4},
    "Llama": LLAMA,
    "Llama, grouped": {**LLAMA, "n_key_value_heads": 2},
    "Mixtral": {**LLAMA, "num_experts": 4, "experts_per_token": 2},
    "GPT-Neo": {
        "use_local_attn": True,
        "window_size": 5,
        "attn_types": ["global", "local"],
        "use_attn_scale": False,
    },
}


def build(options):
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    return HookedTransformer(HookedTransformerConfig(**{**SIZES, **options}))


MODELS = {name: partial(build, options) for name, options in OPTIONS.items()}
DECLARED = {name: {"scale": 1.0} for name in ("no scale", "GPT-Neo")}
