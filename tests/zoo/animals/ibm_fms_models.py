"""ibm-fms: its decoders, small."""

from functools import partial
from importlib import import_module

from torch import nn

SIZES = {
    "src_vocab_size": 61,
    "emb_dim": 48,
    "nheads": 6,
    "nlayers": 2,
    "max_expected_seq_len": 48,
}
UNPADDED = {**SIZES, "pad_id": None}  # or token 0 would have no position of its own
GROUPED = {**SIZES, "kvheads": 2, "multiple_of": 8}
MADE = {
    "LLaMA": ("llama", "LLaMA", "LLaMAConfig", GROUPED),
    "LLaMA, unfused": ("llama", "LLaMA", "LLaMAConfig", {**GROUPED, "fused_weights": False}),
    "LLaMA, tied": ("llama", "LLaMA", "LLaMAConfig", {**GROUPED, "tie_heads": True}),
    "LLaMA, biases": (
        "llama",
        "LLaMA",
        "LLaMAConfig",
        {**GROUPED, "attn_bias": True, "mlp_bias": True},
    ),
    "Granite": ("granite", "Granite", "GraniteConfig", {**GROUPED, "head_dim": 8}),
    "Mistral": (
        "mistral",
        "Mistral",
        "MistralConfig",
        {**GROUPED, "head_dim": 8, "sliding_window": 5},
    ),
    "Qwen3": ("qwen3", "Qwen3", "Qwen3Config", {**GROUPED, "head_dim": 8}),
    "Mixtral": (
        "mixtral",
        "Mixtral",
        "MixtralConfig",
        {
            **{key: value for key, value in SIZES.items() if key != "emb_dim"},
            "dim": 48,
            "kvheads": 2,
            "hidden_dim": 64,
            "num_experts": 4,
        },
    ),
    "GPTBigCode": ("gpt_bigcode", "GPTBigCode", "GPTBigCodeConfig", UNPADDED),
    "GPTBigCode, all heads": (
        "gpt_bigcode",
        "GPTBigCode",
        "GPTBigCodeConfig",
        {**UNPADDED, "multiquery_attn": False},
    ),
    "GptOss": (
        "gpt_oss",
        "GptOss",
        "GptOssConfig",
        {
            **{key: value for key, value in SIZES.items() if key != "max_expected_seq_len"},
            "kvheads": 2,
            "head_dim": 16,
            "num_attention_heads": 6,
            "num_experts": 4,
            "sliding_window": 5,
        },
    ),
}


def build(module, name, config, sizes):
    place = import_module(f"fms.models.{module}")
    model = getattr(place, name)(getattr(place, config)(**sizes))
    model.reset_parameters()
    for field, parameter in model.named_parameters():  # GptOss leaves these to be loaded
        if field.endswith(("ln.weight", "norm.weight")):
            nn.init.ones_(parameter)
        elif field.endswith("_bias"):
            nn.init.zeros_(parameter)
    return model


MODELS = {name: partial(build, *made) for name, made in MADE.items()}
DECLARED = {}
