"""ai2-olmo: OLMo, its options one at a time."""

from functools import partial

SIZES = {
    "d_model": 48,
    "n_heads": 6,
    "n_layers": 2,
    "mlp_hidden_size": 128,
    "vocab_size": 61,
    "embedding_size": 61,
    "max_sequence_length": 48,
    "flash_attention": False,
    "init_device": "cpu",
}
ROTARY = {"rope": True}
OPTIONS = {
    "learned": {},
    "rotary": ROTARY,
    "alibi": {"alibi": True},
    "grouped": {**ROTARY, "n_kv_heads": 2},
    "one kv head": {**ROTARY, "n_kv_heads": 1},
    "untied": {**ROTARY, "weight_tying": False},
    "rms": {**ROTARY, "layer_norm_type": "rms"},
    "norm after": {**ROTARY, "layer_norm_type": "rms", "norm_after": True},
    "qk norm": {**ROTARY, "attention_layer_norm": True, "layer_norm_type": "rms"},
    "gelu": {**ROTARY, "activation_type": "gelu"},
    "blocks of llama": {**ROTARY, "block_type": "llama"},
    "block groups": {**ROTARY, "block_group_size": 2},
    "clipped": {**ROTARY, "clip_qkv": 8.0},
    "no biases": {**ROTARY, "include_bias": False, "layer_norm_with_affine": False},
}


def build(options):
    from olmo.config import ActivationType, BlockType, LayerNormType, ModelConfig
    from olmo.model import OLMo

    kinds = {
        "layer_norm_type": LayerNormType,
        "activation_type": ActivationType,
        "block_type": BlockType,
    }
    made = {key: kinds.get(key, lambda v: v)(value) for key, value in options.items()}
    return OLMo(ModelConfig(**{**SIZES, **made}))


MODELS = {name: partial(build, options) for name, options in OPTIONS.items()}
DECLARED = {"learned": {"padding_side": "right"}}  # forward takes no positions
