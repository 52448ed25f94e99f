"""What the audit rightly finds in published models: check → reason. docs/findings.md shows each."""

_RECURRENT_CHUNKS = "more than one token behind a cache is read as if nothing came before"
_RING = "the mask of a ring-buffer cache takes no account of where a chunk's keys went"
_SELECTION = "what earlier queries selected is not kept in the cache"
_FLEX = "a block mask is left out of the mask that it makes for itself"

FINDINGS = {
    ("transformers", "bloom"): {
        "precision.late": "slope times position, not distance, is rounded to bfloat16"
    },
    ("transformers", "doge"): {"backend.agree": _FLEX},
    ("transformers", "doge, eager"): {"backend.agree": _FLEX},
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
        "padding.hides": "a token that mask hides is shifted into the one after it all the same"
    },
    ("x-transformers", "selective"): {
        "cache.steps": _SELECTION,
        "cache.chunks": _SELECTION,
        "cache.long": _SELECTION,
    },
    ("x-transformers", "memory kv"): {
        "padding.cache": "with keys of its own a left-padded batch gives other logits"
    },
    ("litgpt", "Mistral-7B-v0.1"): {"cache.steps": _RING, "cache.chunks": _RING},
    ("litgpt", "Gemma-3-1b-it"): {"cache.steps": _RING, "cache.chunks": _RING},
    ("litgpt", "Gemma-2-2b"): {
        "cache.steps": "with a soft-cap the cache's boolean mask is added to the scores",
        "cache.chunks": "with a soft-cap the cache's boolean mask is added to the scores",
        "cache.long": "a prompt longer than the window is refused behind a cache",
    },
}
"""(package, model) → check → why it fails, and rightly so."""
