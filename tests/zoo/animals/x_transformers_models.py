"""x-transformers: one decoder, its options one at a time."""

from functools import partial

from torch import nn

VOCABULARY, LENGTH, WIDTH, HEADS = 61, 48, 48, 6


def build(wrapper, options):
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=WIDTH, depth=2, heads=HEADS, **{"attn_dim_head": 8, **options})
    model = TransformerWrapper(
        num_tokens=VOCABULARY, max_seq_len=LENGTH, attn_layers=layers, **wrapper
    )
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
    return model


ROTARY = {"rotary_pos_emb": True, "rotary_emb_dim": 8}
OPTIONS = {
    "learned": {},
    "rotary": ROTARY,
    "rotary, fused": {**ROTARY, "attn_flash": True},
    "partly rotary": {**ROTARY, "rotary_emb_dim": 4},
    "xpos": {**ROTARY, "rotary_xpos": True},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 6},
    "alibi in some heads": {"alibi_pos_bias": True, "alibi_num_heads": 3},
    "alibi, fused": {"alibi_pos_bias": True, "attn_flash": True},
    "t5 bias": {"rel_pos_bias": True},
    "dynamic bias": {"dynamic_pos_bias": True, "disable_abs_pos_emb": True},
    "qk norm": {**ROTARY, "attn_qk_norm": True},
    "qk norm by dimension": {**ROTARY, "attn_qk_norm": True, "attn_qk_norm_dim_scale": True},
    "qk rmsnorm": {**ROTARY, "attn_qk_rmsnorm": True},
    "talking heads": {
        **ROTARY,
        "attn_pre_talking_heads": True,
        "attn_post_talking_heads": True,
    },
    "grouped": {**ROTARY, "attn_kv_heads": 2},
    "one kv head": {**ROTARY, "attn_one_kv_head": True},
    "grouped, fused": {**ROTARY, "attn_kv_heads": 2, "attn_flash": True},
    "memory kv": {**ROTARY, "attn_num_mem_kv": 3},
    "zero kv": {**ROTARY, "attn_add_zero_kv": True},
    "learned sink": {**ROTARY, "attn_head_learned_sink": True},
    "soft clamp": {**ROTARY, "attn_softclamp_logits": True},
    "sigmoid": {**ROTARY, "attn_sigmoid": True},
    "gated values": {**ROTARY, "attn_gate_values": True},
    "head scale": {**ROTARY, "attn_head_scale": True},
    "window": {**ROTARY, "attn_max_attend_past": 5},
    "selective": {**ROTARY, "attn_selective": True},
    "l2 distance": {**ROTARY, "attn_l2_distance": True},
    "rmsnorm": {**ROTARY, "use_rmsnorm": True},
    "simple rmsnorm": {**ROTARY, "use_simple_rmsnorm": True},
    "scalenorm": {**ROTARY, "use_scalenorm": True},
    "dynamic tanh": {**ROTARY, "use_dynamic_tanh": True},
    "post-norm": {**ROTARY, "pre_norm": False},
    "sandwich norm": {**ROTARY, "sandwich_norm": True},
    "swiglu": {**ROTARY, "ff_swish": True, "ff_glu": True, "ff_no_bias": True},
    "squared relu": {**ROTARY, "ff_relu_squared": True},
    "norm inside": {**ROTARY, "ff_post_act_ln": True},
    "shifted tokens": {**ROTARY, "shift_tokens": 1},
    "value residual": {**ROTARY, "add_value_residual": True},
    "gated residual": {**ROTARY, "gate_residual": True},
    "residual attention": {**ROTARY, "residual_attn": True},
    "macaron": {**ROTARY, "macaron": True},
    "tied layers": {**ROTARY, "weight_tie_layers": True},
    "hyper-connections": {**ROTARY, "num_residual_streams": 2},
    "zero-initialised branches": {**ROTARY, "zero_init_branch_output": True},
    "dropout": {**ROTARY, "attn_dropout": 0.1, "ff_dropout": 0.1, "layer_dropout": 0.1},
}
WRAPPERS = {
    "tied": {"tie_embedding": True},
    "sinusoids": {"scaled_sinu_pos_emb": True},
    "normed embedding": {"l2norm_embed": True},
    "memory tokens": {"num_memory_tokens": 2},
}
MODELS = {
    **{name: partial(build, {}, options) for name, options in OPTIONS.items()},
    **{name: partial(build, wrapper, {}) for name, wrapper in WRAPPERS.items()},
}
DECLARED = {"sinusoids": {"padding_side": "right"}}  # its positions cannot be given row by row
