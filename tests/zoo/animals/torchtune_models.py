"""torchtune: its decoders, small."""

from functools import partial
from importlib import import_module

SIZES = {
    "vocab_size": 61,
    "num_layers": 2,
    "num_heads": 6,
    "num_kv_heads": 2,
    "embed_dim": 48,
    "max_seq_len": 48,
    "intermediate_dim": 64,
}
OPTIONS = {
    "llama2": {},
    "llama3": {},
    "llama3_1": {},
    "mistral": {},
    "phi3": {},
    "qwen2": {"tie_word_embeddings": False},
    "gemma": {"head_dim": 8},
    "gemma2": {"head_dim": 8, "sliding_window_size": 5, "query_pre_attn_scalar": 8},
}


def build(name, options):
    module = import_module(f"torchtune.models.{name}")
    return getattr(module, name)(**SIZES, **options)


MODELS = {
    **{name: partial(build, name, options) for name, options in OPTIONS.items()},
    "qwen2, tied": partial(build, "qwen2", {"tie_word_embeddings": True}),
}
DECLARED = {}
