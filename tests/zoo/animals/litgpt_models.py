"""litgpt: published families, small."""

from functools import partial

SIZES = {
    "n_layer": 2,
    "n_embd": 48,
    "n_head": 6,
    "head_size": 8,
    "block_size": 48,
    "vocab_size": 61,
    "padded_vocab_size": 64,
    "intermediate_size": 64,
}
NAMES = {
    "pythia-14m": {},
    "phi-2": {"head_size": 10},
    "Phi-3-mini-4k-instruct": {},
    "falcon-7b": {"n_query_groups": 1},
    "stablelm-base-alpha-3b": {},
    "Llama-2-7b-hf": {},
    "Llama-3.1-8B": {"n_query_groups": 2},
    "Mistral-7B-v0.1": {"n_query_groups": 2, "sliding_window_size": 5},
    "Mixtral-8x7B-v0.1": {"n_query_groups": 2, "n_expert": 4},
    "Gemma-2b": {"n_query_groups": 1},
    "Gemma-2-2b": {"n_query_groups": 2, "sliding_window_size": 5},
    "Gemma-3-1b-it": {"n_query_groups": 2, "sliding_window_size": 5},
    "Qwen2.5-0.5B": {"n_query_groups": 2},
    "Qwen3-0.6B": {"n_query_groups": 2},
    "OLMo-1B-hf": {},
    "SmolLM2-135M": {"n_query_groups": 2},
}


def build(name, sizes):
    from litgpt import GPT, Config

    config = Config.from_name(name, **{**SIZES, "n_query_groups": 6, **sizes})
    model = GPT(config)
    model.apply(model._init_weights)
    return model


MODELS = {name: partial(build, name, sizes) for name, sizes in NAMES.items()}
DECLARED = {name: {"vocabulary": 61} for name in NAMES}
DECLARED["Gemma-2-2b"] = {"vocabulary": 61, "scale": 256**-0.5}
