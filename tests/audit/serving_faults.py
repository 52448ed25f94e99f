"""Faults that people made between training and serving, as changes of a hand-written model."""

from dataclasses import dataclass, field
from pathlib import Path

from hosts import changed, written

SOURCE = (Path(__file__).parent / "models" / "serving.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Fault:
    """One fault: what is replaced, and the components that may be accused first."""

    id: str
    components: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]
    settings: dict = field(default_factory=dict)
    declare: dict = field(default_factory=dict)
    model: str = "Model"

    def write(self, folder):
        """Write the faulty model to `folder` and name it as a subject."""
        source = changed(SOURCE, self.changes, self.id)
        return written(source, folder, self.model, file="serving.py")


LEARNED, ALIBI = {"config.scheme": "learned"}, {"config.scheme": "alibi"}
FLASH, WINDOW = {"config.flash": True}, {"config.window": 5}

CAT_K = "k = torch.cat([past[0], k], dim=2)"
CAT_V = "v = torch.cat([past[1], v], dim=2)"
PRESENT = "present = (k, v)"
ROTATE_K = "k = self.rotate(k, positions)"
COUNT = "positions = torch.arange(n, n + T, device=idx.device).expand(B, T)"
MASKED = "positions = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -T:]"
PAD = "mask = mask & pad_mask.bool()[:, None, None, :]"
BIAS = "bias = bias.masked_fill(~mask, torch.finfo(x.dtype).min)"
EYE = "            mask = mask | (i == j)\n"
MASKING = f"if pad_mask is not None:\n            {PAD}"
SUM = """if pad_mask is not None:
            hidden = 1 - pad_mask.to(x.dtype)
            bias = bias + (hidden[:, None, None] + hidden[:, None, -T:, None]) * {}"""
SDPA = "y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)"
FILTER = 'logits = logits.masked_fill(logits < kth, float("-inf"))'
LAYERS = "nn.ModuleList([Block(config) for _ in range(config.n_layer)])"
SEEDED = "seeded = torch.Generator().manual_seed(0)"
LOSS = "F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())"

CACHE = [
    Fault(
        "K01",
        ("cache",),
        (
            (CAT_K, "k = torch.cat([k, past[0]], dim=2)"),
            (CAT_V, "v = torch.cat([v, past[1]], dim=2)"),
        ),
    ),
    Fault(
        "K02",
        ("cache",),
        (
            (
                "    def reset_cache(self):\n        self.kept = None",
                "    def reset_cache(self):\n        pass",
            ),
        ),
        model="Stateful",
    ),
    Fault("K04", ("position",), ((COUNT, COUNT.replace("n, n + T", "2 * n, 2 * n + T")),)),
    Fault(
        "K06",
        ("cache", "rope", "position"),
        ((PRESENT, "present = (k[:, :, -5:], v[:, :, -5:])"),),
        WINDOW,
    ),
    Fault("R05", ("position",), ((COUNT, COUNT.replace("n, n + T", "T")),)),
    Fault(
        "R04",
        ("rope", "cache"),
        (
            (ROTATE_K, "k = self.rotate(k, positions) if past is None else k"),
            (
                CAT_V,
                CAT_V + "\n            if self.config.scheme == 'rotary':"
                "\n                whole = torch.arange(k.size(2)).expand(B, -1)"
                "\n                k = self.rotate(k, whole)",
            ),
        ),
    ),
    Fault(
        "R12",
        ("rope", "cache"),
        (
            (
                "q = self.rotate(q, positions)",
                (
                    "base = 10000.0 if past is None else 500.0\n"
                    "            q = self.rotate(q, positions, base)"
                ),
            ),
            (ROTATE_K, "k = self.rotate(k, positions, base)"),
        ),
    ),
    Fault(
        "P04",
        ("position", "mask"),
        (("* (i - j)).to", "* (i - i[0] - j).clamp(min=0)).to"),),
        ALIBI,
    ),
    Fault(
        "M15",
        ("mask", "cache"),
        ((SDPA, "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)"),),
        FLASH,
    ),
    Fault(
        "chunk-sees-itself",
        ("mask",),
        (
            (
                "mask = (j <= i)[None, None]",
                "mask = ((j <= i) if past is None else torch.ones_like(j <= i))[None, None]",
            ),
        ),
    ),
    Fault(
        "values-late", ("cache",), ((CAT_V, "v = torch.cat([past[1].roll(1, dims=2), v], dim=2)"),)
    ),
    Fault(
        "half-stored",
        ("cache",),
        ((PRESENT, "present = (k.bfloat16().to(k.dtype), v.bfloat16().to(v.dtype))"),),
    ),
    Fault(
        "ignored",
        ("cache", "position"),
        (("if past is not None:\n            k =", "if False:\n            k ="),),
    ),
]

PADDING = [
    Fault(
        "M08",
        ("mask",),
        (
            (
                PAD,
                (
                    "mask = torch.ones_like(mask) if pad_mask.all() else "
                    "mask & pad_mask.bool()[:, None, None, :]"
                ),
            ),
        ),
    ),
    Fault("M11", ("padding",), ((PAD, "mask = mask & pad_mask.bool()[:, None, :, None]"),)),
    Fault(
        "M11-nan",
        ("padding",),
        (
            (PAD, "mask = mask & pad_mask.bool()[:, None, :, None]"),
            (EYE, ""),
            ("torch.finfo(x.dtype).min)", "float('-inf'))"),
        ),
    ),
    Fault(
        "M19",
        ("padding",),
        (
            (PAD, "pass"),
            (EYE, ""),
            (BIAS, f"{BIAS}\n        {SUM.format('torch.finfo(x.dtype).min')}"),
        ),
    ),
    Fault(
        "M19-half",
        ("dtype",),
        (
            (PAD, "pass"),
            (EYE, ""),
            (BIAS, f"bias = bias.masked_fill(~mask, -5e4)\n        {SUM.format('-5e4')}"),
        ),
    ),
    Fault(
        "padding-seen-by-steps",
        ("padding",),
        ((MASKING, MASKING.replace("is not None:", "is not None and past is None:", 1)),),
    ),
    Fault("P02", ("position",), ((MASKED, "pass"),), LEARNED),
    Fault(
        "padding-replaces-causality",
        ("mask",),
        ((PAD, "mask = pad_mask.bool()[:, None, None, :]"),),
    ),
    Fault(
        "empty-row",
        ("padding",),
        (
            (EYE, ""),
            ("torch.finfo(x.dtype).min)", "float('-inf'))"),
        ),
    ),
]

LOSSES = [
    Fault(
        "L01",
        ("loss",),
        ((LOSS, "F.cross_entropy(logits[:, :-2].flatten(0, 1), targets[:, 2:].flatten())"),),
    ),
    Fault("L01-outside", ("loss",), (), declare={"targets": "next"}),
    Fault(
        "L02",
        ("loss",),
        ((LOSS, "F.cross_entropy(logits.flatten(0, 1), targets.flatten())"),),
        declare={"targets": "ids"},
    ),
    Fault("L04", ("loss",), (), declare={"ignore_index": 0}),
    Fault(
        "mean-of-rows",
        ("loss",),
        (
            (
                LOSS,
                "sum(F.cross_entropy(a[:-1], b[1:]) for a, b in zip(logits, targets)) / B",
            ),
        ),
    ),
    Fault("summed", ("loss",), ((LOSS, LOSS[:-1] + ", reduction='sum')"),)),
    Fault(
        "backwards",
        ("loss",),
        ((LOSS, "F.cross_entropy(logits[:, 1:].flatten(0, 1), targets[:, :-1].flatten())"),),
    ),
]

TYING = [
    Fault(
        "T01",
        ("tying",),
        (
            (
                "self.lm_head.weight = self.wte.weight",
                "self.lm_head.weight = nn.Parameter(self.wte.weight.clone())",
            ),
        ),
        {"config.tied": True},
        {"tied": True},
    ),
]

GENERATION = [
    Fault(
        "M02",
        ("generation",),
        (
            (
                "mask = mask[:, -self.config.block_size :]",
                "mask = 1 - mask[:, -self.config.block_size :]",
            ),
        ),
    ),
    Fault("D01", ("generation",), (("mask = attention_mask\n", "mask = None\n"),)),
    Fault("D04", ("generation",), (), declare={"padding_side": "right"}),
    Fault("D05", ("generation",), ((FILTER, FILTER.replace('float("-inf")', "1e-10")),)),
    Fault("top-k-off-by-one", ("generation",), ((".topk(top_k)", ".topk(top_k + 1)"),)),
    Fault(
        "top-p-drops-the-crossing",
        ("generation",),
        (("before >= top_p", "before + share > top_p"),),
    ),
    Fault(
        "temperature-times",
        ("generation",),
        (("logits = logits / temperature", "logits = logits * temperature"),),
    ),
    Fault(
        "softmax-twice",
        ("generation",),
        (("return logits.softmax(-1)", "return logits.softmax(-1).softmax(-1)"),),
    ),
    Fault(
        "one-too-few", ("generation",), (("range(max_new_tokens)", "range(max_new_tokens - 1)"),)
    ),
    Fault(
        "prompt-cut", ("generation",), (("        return idx\n", "        return idx[:, 1:]\n"),)
    ),
    Fault(
        "last-but-one",
        ("generation",),
        (
            (
                "attention_mask=mask)[0][:, -1]",
                "attention_mask=mask)[0][:, -2 if idx.size(1) > 5 else -1]",
            ),
        ),
    ),
    Fault(
        "end-ignored",
        ("generation",),
        (
            ("done = done | (new == eos_token)", "pass"),
            ("new = new.masked_fill(done, eos_token)", "pass"),
        ),
    ),
    Fault(
        "draws-of-the-system",
        ("generation",),
        (
            (
                "new = torch.multinomial(self.probabilities(logits, temperature, top_k, top_p), 1)",
                (
                    "import secrets\n"
                    "                p = self.probabilities(logits, temperature, top_k, top_p)\n"
                    "                p = p.cumsum(-1)\n"
                    "                u = [[secrets.randbelow(10**6) / 1e6] for _ in p]\n"
                    "                u = torch.tensor(u)\n"
                    "                new = (p < u).sum(-1, keepdim=True).clamp(max=p.size(-1) - 1)"
                ),
            ),
        ),
    ),
]

INITIALISATION = [
    Fault(
        "unfilled",
        ("init",),
        (
            (
                "self.apply(self._init)",
                "self.apply(self._init)\n        self.ln_f.weight = nn.Parameter(torch.empty(48))",
            ),
        ),
    ),
    Fault(
        "one-generator-for-all",
        ("init",),
        (
            ("std=0.02)", "std=0.02, generator=self.seeded)"),
            ("class Model(nn.Module):", f"class Model(nn.Module):\n    {SEEDED}"),
        ),
    ),
    Fault(
        "dropout-lost",
        ("dropout",),
        (
            (
                "    def _init(self, module):",
                (
                    "    def eval(self):\n"
                    "        for module in self.modules():\n"
                    "            if isinstance(module, nn.Dropout):\n"
                    "                module.p = 0.0\n"
                    "        return super().eval()\n\n"
                    "    def _init(self, module):"
                ),
            ),
        ),
    ),
    Fault(
        "mode-kept",
        ("dropout",),
        (
            (
                "    def forward(self, x, positions, pad_mask, past, docs):\n        y, present",
                (
                    "    def train(self, mode=True):\n"
                    "        self.training = mode\n"
                    "        return self\n\n"
                    "    def forward(self, x, positions, pad_mask, past, docs):\n        y, present"
                ),
            ),
        ),
    ),
]

FAULTS = [*CACHE, *PADDING, *LOSSES, *TYING, *GENERATION, *INITIALISATION]
