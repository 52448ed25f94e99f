"""What the audit rightly finds in published models: check → reason. docs/findings.md shows each."""

_RECURRENT_CHUNKS = "more than one token behind a cache is read as if nothing came before"
_RING = "the mask of a ring-buffer cache takes no account of where a chunk's keys went"
_CHUNK_MASK = "the causal mask of a chunk behind a cache is lined up with the first key"
_AS_MANY_AS_HEADS = "a sequence as long as there are KV heads is transposed once too often"
_SEES_AHEAD = {
    "cache.chunks": _CHUNK_MASK,
    "causality.shapes": _AS_MANY_AS_HEADS,
    "causality.prefix": _AS_MANY_AS_HEADS,
}
_GRADIENT = "the backward of its experts returns their input in place of a gradient"
_NO_GRADIENT = {
    "causality.gradient": _GRADIENT,
    "gradient.every_parameter": _GRADIENT,
    "gradient.slope": _GRADIENT,
}
_UNIT_EMBEDDING = "tied to an embedding of standard deviation 1, and never rescaled"
_FROM_THE_END = "the embedding is indexed, so that a negative id counts from the end"
_UNREAD = "the table of positions is built, and with ALiBi never read"
_OWN_PLACE = "with explicit positions keys behind a cache get no slope"
_TOKEN_BEFORE = "the token before is not kept in the cache"
_SELECTION = "what earlier queries selected is not kept in the cache"
_TIES = "of equal tokens past its window it keeps one by chance"
_FLEX = "a block mask is left out of the mask that it makes for itself"

_DOGE = {
    "backend.agree": _FLEX,
    "cache.steps": _TIES,
    "cache.chunks": _TIES,
    "cache.long": _TIES,
    "cache.turns": _TIES,
    "cache.programs": _TIES,
    "causality.prefix": _TIES,
    "length.longest": _TIES,
    "precision.late": _TIES,
}

FINDINGS = {
    ("transformers", "bloom"): {
        "precision.late": "slope times position, not distance, is rounded to bfloat16"
    },
    ("transformers", "deepseek_v2, norm_topk_prob"): {
        "experts.normalised": "norm_topk_prob is not read"
    },
    ("transformers", "doge"): _DOGE,
    ("transformers", "doge, eager"): {**_DOGE, "inside.weights_follow_scores": _TIES},
    ("transformers", "mamba"): {"cache.chunks": _RECURRENT_CHUNKS},
    ("transformers", "falcon_mamba"): {"cache.chunks": _RECURRENT_CHUNKS},
    ("transformers", "jamba"): {"cache.chunks": _RECURRENT_CHUNKS},
    ("transformers", "minimax"): {
        "cache.programs": "reorder_cache leaves the states of linear attention where they were"
    },
    ("transformers", "recurrent_gemma"): {
        "padding.hides": "attention_mask does not reach the recurrent layers and convolutions"
    },
    ("transformers", "openai-gpt"): {
        "causality.perturb": "the mask fills in -1e4, which large scores exceed"
    },
    ("x-transformers", "shifted tokens"): {
        "padding.hides": "a token that mask hides is shifted into the one after it all the same",
        "cache.steps": _TOKEN_BEFORE,
        "cache.chunks": _TOKEN_BEFORE,
        "cache.long": _TOKEN_BEFORE,
    },
    **{
        ("x-transformers", name): {"padding.cache": _OWN_PLACE}
        for name in ("alibi", "alibi in some heads", "alibi, fused")
    },
    ("x-transformers", "selective"): {
        "cache.steps": _SELECTION,
        "cache.chunks": _SELECTION,
        "cache.long": _SELECTION,
        "padding.alone": "what padding selects is hidden from real tokens",
    },
    ("x-transformers", "memory kv"): {
        "padding.cache": "with keys of its own a left-padded batch gives other logits"
    },
    **{
        ("torchtune", name): {"loss.initial": _UNIT_EMBEDDING}
        for name in ("gemma", "gemma2", "qwen2, tied")
    },
    **{
        ("ibm-fms", name): _SEES_AHEAD
        for name in (
            "LLaMA",
            "LLaMA, unfused",
            "LLaMA, tied",
            "LLaMA, biases",
            "Granite",
            "Mistral",
            "Qwen3",
        )
    },
    ("ibm-fms", "Mixtral"): {**_SEES_AHEAD, **_NO_GRADIENT},
    ("ibm-fms", "GPTBigCode"): {"cache.chunks": _CHUNK_MASK},
    ("ibm-fms", "GPTBigCode, all heads"): {
        "cache.chunks": _CHUNK_MASK,
        "causality.prefix": _AS_MANY_AS_HEADS,
    },
    ("ibm-fms", "GptOss"): {
        "causality.shapes": _AS_MANY_AS_HEADS,
        "causality.prefix": _AS_MANY_AS_HEADS,
        **_NO_GRADIENT,
    },
    **{
        ("transformer-lens", name): {"vocabulary.range": _FROM_THE_END}
        for name in (
            "GPT-2",
            "GPT-2, folded norms",
            "no norm",
            "attention alone",
            "solu",
            "parallel",
            "no scale",
            "shortformer",
            "GPT-J",
            "GPT-NeoX",
            "Llama",
            "Llama, grouped",
            "Mixtral",
            "GPT-Neo",
        )
    },
    ("transformer-lens", "alibi"): {
        "vocabulary.range": _FROM_THE_END,
        "modules.executed": _UNREAD,
        "gradient.every_parameter": _UNREAD,
    },
    ("litgpt", "Mistral-7B-v0.1"): {
        "cache.steps": _RING,
        "cache.chunks": _RING,
        "window.cache": _RING,
    },
    ("litgpt", "Gemma-3-1b-it"): {
        "cache.steps": _RING,
        "cache.chunks": _RING,
        "window.cache": _RING,
    },
    ("litgpt", "Gemma-2-2b"): {
        "cache.steps": "with a soft-cap the cache's boolean mask is added to the scores",
        "cache.chunks": "with a soft-cap the cache's boolean mask is added to the scores",
        "cache.long": "a prompt longer than the window is refused behind a cache",
    },
}
"""(package, model) → check → why it fails, and rightly so."""
