# ruff: noqa: ISC004 - lines are replaced by several
"""Faults of windows: in a hand-written model, and in a Hugging Face mistral."""

from hosts import Fault

WINDOW = "mask = mask & (j > i - self.window)"
KEEP = "keep = self.window - 1 if self.window else S"
PADDED = "mask = mask & pad_mask.bool()[:, None, None, -S:]"
CHUNK = "mask = mask & (i // self.chunk == j // self.chunk)"
SDPA = "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"
CHUNKS = {"config.window": 0, "config.chunk": 5}

BY_HAND = [
    Fault(
        "W02-one-backend",
        "window",
        "window-ignored",
        ((SDPA, "y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)"),),
    ),
    Fault(
        "W02-zero-is-a-width",
        "mask",
        "row-empty",
        (("if self.window:", "if self.window is not None:"),),
        {"config.window": 0},
        {"window": None},
    ),
    Fault("ignored", "window", "window-ignored", ((WINDOW, "pass"),), declare={"window": 7}),
    Fault(
        "one-key-more",
        "window",
        "window-differs",
        ((WINDOW, WINDOW.replace("j > i", "j >= i")), (KEEP, KEEP.replace("window - 1", "window"))),
        declare={"window": 7},
    ),
    Fault(
        "one-key-less",
        "window",
        "window-differs",
        ((WINDOW, WINDOW.replace("self.window", "self.window + 1")),),
        declare={"window": 7},
    ),
    Fault(
        "half-the-heads",
        "window",
        "window-ignored",
        (
            (
                "scores = q @ k",
                "mask = mask.expand(-1, self.n_head, -1, -1).clone()\n"
                "            mask[:, ::2] = (places[:, None] <= positions[..., None])[:, None]\n"
                "            scores = q @ k",
            ),
        ),
        declare={"window": 7},
    ),
    Fault(
        "blocks-for-a-window",
        "window",
        "window-differs",
        ((WINDOW, "mask = mask & (i // self.window == j // self.window)"),),
        declare={"window": 7},
    ),
    Fault(
        "grows-with-the-position",
        "window",
        "window-uneven",
        ((WINDOW, WINDOW.replace("self.window", "self.window - i // 8")),),
        declare={"window": 7},
    ),
    Fault(
        "every-layer",
        "window",
        "window-differs",
        (("config.window if layer % config.every == 0 else 0", "config.window"),),
        {"config.every": 2},
        {"window": [7, None]},
    ),
    Fault(
        "the-other-layers",
        "window",
        None,
        (("layer % config.every == 0", "layer % config.every == 1"),),
        {"config.every": 2},
        {"window": [7, None]},
    ),
    Fault(
        "padding-for-window",
        "window",
        "window-ignored",
        (
            (
                PADDED,
                "mask = (places[:, None] <= positions[..., None])[:, None]\n            " + PADDED,
            ),
        ),
    ),
    Fault(
        "chunk-as-window",
        "window",
        "window-differs",
        ((CHUNK, "mask = mask & (j > i - self.chunk)"),),
        CHUNKS,
        {"chunk": 5},
    ),
    Fault(
        "chunk-shifted",
        "window",
        "window-uneven",
        ((CHUNK, "mask = mask & ((i + 2) // self.chunk == (j + 2) // self.chunk)"),),
        CHUNKS,
        {"chunk": 5},
    ),
    Fault(
        "cache-one-short",
        "window",
        "cached-window-short",
        ((KEEP, KEEP.replace("window - 1", "window - 2")),),
    ),
    Fault(
        "cache-one-long",
        "window",
        "cached-window-long",
        (
            (KEEP, KEEP.replace("window - 1", "window")),
            (
                "mask = self.visible(positions, places)",
                "mask = self.visible(positions, places)\n"
                "        if past is not None and T == 1:\n"
                "            mask = torch.ones_like(mask)",
            ),
        ),
    ),
    Fault(
        "chunk-cut-to-the-window",
        "window",
        "cached-window-short",
        (
            (
                "        keep = self.window",
                "        if past is not None and self.window:\n"
                "            k, v = k[:, :, -self.window :], v[:, :, -self.window :]\n"
                "            places = places[:, -self.window :]\n"
                "            S = k.size(2)\n"
                "        keep = self.window",
            ),
        ),
    ),
    Fault(
        "values-less-their-mean",
        "cache",
        "window-passed",
        (
            (
                "v = self.wv(x).view",
                "v = self.wv(x)\n"
                "        v = v - v.cumsum(1) / torch.arange(1, T + 1)[:, None]\n"
                "        v = v.view",
            ),
        ),
    ),
    Fault(
        "K06",
        "position",
        None,
        (
            (
                "n = 0 if past is None else int(past[0][2].max()) + 1",
                "n = 0 if past is None else past[0][0].size(2)",
            ),
        ),
    ),
]

MASK = (
    "mask_function = create_causal_mask if self.config.sliding_window is None "
    "else create_sliding_window_causal_mask"
)
CACHE = "cache = DynamicCache(config=self.config)"
OTHER = """other = __import__("copy").copy(self.config)
            other.sliding_window {}= 1
            cache = DynamicCache(config=other)"""
WIDTH = """other = __import__("copy").copy(self.config)
        other.sliding_window {}= 1
        mask_function"""

MISTRAL = [
    Fault("ignored", "window", "window-ignored", ((MASK, "mask_function = create_causal_mask"),)),
    Fault(
        "W02-one-backend",
        "window",
        "window-ignored",
        ((MASK, MASK.replace("is None", "is None or self.config._attn_implementation == 'sdpa'")),),
        {"attention": "sdpa"},
    ),
    Fault(
        "padding-for-window",
        "window",
        "window-ignored",
        ((MASK, MASK.replace("is None", "is None or attention_mask is not None")),),
    ),
    Fault(
        "one-key-more",
        "window",
        "window-differs",
        (
            (MASK, MASK.replace("mask_function", WIDTH.format("+"), 1)),
            ("            config=self.config,\n", "            config=other,\n"),
        ),
    ),
    Fault(
        "one-key-less",
        "window",
        "window-differs",
        (
            (MASK, MASK.replace("mask_function", WIDTH.format("-"), 1)),
            ("            config=self.config,\n", "            config=other,\n"),
        ),
    ),
    Fault(
        "cache-one-short",
        "window",
        "cached-window-short",
        ((CACHE, OTHER.format("-")),),
    ),
]
