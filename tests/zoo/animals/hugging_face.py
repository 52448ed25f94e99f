"""Families of transformers, built small by their type, and how they attend."""

SDPA_TOO = (
    "apertus", "arcee", "biogpt", "bitnet", "codegen", "cohere", "cohere2", "deepseek_v2",
    "deepseek_v3", "diffllama", "doge", "ernie4_5", "ernie4_5_moe", "exaone4", "falcon", "gemma",
    "gemma3_text", "glm", "glm4", "glm4_moe", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "granite",
    "granitemoe", "granitemoeshared", "helium", "hunyuan_v1_dense", "jetmoe", "lfm2", "llama",
    "llama4_text", "ministral", "minimax_m2", "mistral", "mixtral", "nemotron", "olmo", "olmo2",
    "olmo3", "olmoe", "opt", "persimmon", "phi", "phi3", "phimoe", "qwen2", "qwen2_moe", "qwen3",
    "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2", "vaultgemma",
)  # fmt: skip
"""Families whose default is sdpa and which attend eagerly as well."""

ONE_WAY = (
    "bloom", "ctrl", "falcon_mamba", "flex_olmo", "gemma2", "gpt_neo", "gpt_oss",
    "hunyuan_v1_moe", "jamba", "mamba", "minimax", "mpt", "openai-gpt", "qwen3_next",
    "recurrent_gemma", "xglm",
)  # fmt: skip
"""Families with one way to attend, or none, or two that were tried by hand."""

SETTINGS = {"hunyuan_v1_moe": {"num_experts": 4, "moe_topk": 2}}
"""With one expert whose weight is renormalised to 1, a router gets no gradient: a real hazard."""

VARIANTS = {
    "deepseek_v2, norm_topk_prob": ("deepseek_v2", {"norm_topk_prob": True}),
    "deepseek_v3, no norm_topk_prob": ("deepseek_v3", {"norm_topk_prob": False}),
    "phi3, window": ("phi3", {"sliding_window": 8}),
    "qwen2, window": (
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 8,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        },
    ),
    "qwen3_moe, norm_topk_prob": ("qwen3_moe", {"norm_topk_prob": True}),
    "starcoder2, window": ("starcoder2", {"sliding_window": 8}),
}
"""Name → family and fields: what a family offers and leaves off by default."""

FEW = ("llama", "gpt2", "gemma2", "bloom", "gpt_oss", "mixtral", "gpt_neox", "qwen3")
"""Those of the ordinary run: each kind of positions, norm, block, window, sink and expert."""
