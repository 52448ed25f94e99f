"""llms-from-scratch: the book's GPT, Llama 3 and Qwen3."""

import torch

GPT2 = {
    "vocab_size": 61, "context_length": 48, "emb_dim": 48, "n_heads": 6, "n_layers": 2,
    "drop_rate": 0.1, "qkv_bias": False,
}  # fmt: skip
LLAMA = {
    "vocab_size": 61, "context_length": 48, "emb_dim": 48, "n_heads": 6, "n_layers": 2,
    "hidden_dim": 64, "n_kv_groups": 2, "rope_base": 500_000.0, "dtype": torch.float32,
    "rope_freq": {
        "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_context_length": 64,
    },
}  # fmt: skip
QWEN = {**LLAMA, "head_dim": 8, "qk_norm": True, "rope_base": 1_000_000.0, "num_experts": 0}
QWEN_EXPERTS = {
    **QWEN, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
}  # fmt: skip


def gpt():
    from llms_from_scratch.ch04 import GPTModel

    return GPTModel(GPT2)


def gpt_fast():
    from llms_from_scratch.ch04 import GPTModelFast

    return GPTModelFast(GPT2)


def gpt_with_cache():
    from llms_from_scratch.kv_cache.gpt2 import GPTModel

    return GPTModel({**GPT2, "kv_window_size": 48})


def llama():
    from llms_from_scratch.llama3 import Llama3Model

    return Llama3Model(LLAMA)


def llama_fast():
    from llms_from_scratch.llama3 import Llama3ModelFast

    return Llama3ModelFast(LLAMA)


def llama_with_cache():
    from llms_from_scratch.kv_cache.llama3 import Llama3Model

    return Llama3Model(LLAMA)


def qwen():
    from llms_from_scratch.qwen3 import Qwen3Model

    return Qwen3Model(QWEN)


def qwen_experts():
    from llms_from_scratch.qwen3 import Qwen3Model

    model = Qwen3Model(QWEN_EXPERTS)
    for module in model.modules():  # experts come without numbers, to be loaded
        if isinstance(module, torch.nn.Linear) and module.weight.is_meta:
            module.weight = torch.nn.Parameter(torch.empty(module.weight.shape))
            module.reset_parameters()
    return model


def qwen_with_cache():
    from llms_from_scratch.kv_cache.qwen3 import Qwen3Model

    return Qwen3Model(QWEN)


MODELS = {
    "GPT": gpt,
    "GPT, fast": gpt_fast,
    "GPT with cache": gpt_with_cache,
    "Llama 3": llama,
    "Llama 3, fast": llama_fast,
    "Llama 3 with cache": llama_with_cache,
    "Qwen3": qwen,
    "Qwen3, experts": qwen_experts,
    "Qwen3 with cache": qwen_with_cache,
}
DECLARED = {}
