"""Faults of packed rows, ragged losses and kept state, as changes of a hand-written model."""

from serving_faults import ALIBI, LAYERS, LEARNED, LOSS, Fault

APART = "mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])"
TIED = "self.lm_head.weight = self.wte.weight"
INIT = "self.apply(self._init)"
SHARE = "loss = loss * (targets[:, 1:] != -100).sum() / num_items_in_batch"
ON_META = {"meta_device": True}
SPREAD = "nn.init.normal_(module.weight, std=0.02)"

PACKING = [
    Fault("A01", ("mask",), ((APART, "pass"),)),
    Fault(
        "documents-apart-in-the-first-rows-alone",
        ("mask",),
        ((APART, f"{APART[:-1]} | (documents[:, None, :, None] > 2))"),),
    ),
    Fault(
        "packed-positions-run-on",
        ("position",),
        (("positions = positions - (positions * begins).cummax(dim=1).values", "pass"),),
        LEARNED,
    ),
]

LOSSES = [
    Fault("count-ignored", ("loss",), ((SHARE, "pass"),)),
    Fault(
        "mean-of-means",
        ("loss",),
        ((SHARE, "loss = loss * targets[:, 1:].numel() / num_items_in_batch"),),
    ),
    Fault(
        "padding-in-the-denominator",
        ("loss",),
        (
            (
                LOSS,
                LOSS + "\n            if attention_mask is not None:"
                "\n                loss = loss * attention_mask[:, 1:].float().mean()",
            ),
        ),
    ),
]

PARAMETERS = [
    Fault("Q01", ("parameters",), ((LAYERS, LAYERS.removeprefix("nn.ModuleList(").rstrip(")")),)),
    Fault(
        "last-layer-skipped",
        ("parameters",),
        (("zip(self.layers, past", "zip(self.layers[:-1], past"),),
    ),
    Fault(
        "frozen-part-never-called",
        ("parameters",),
        ((INIT, f"self.spare = nn.Linear(48, 48).requires_grad_(False)\n        {INIT}"),),
    ),
    Fault("N10", ("norm",), (("self.mlp(self.ln2(x))", "self.mlp(self.ln1(x))"),)),
]

TYING = [
    Fault(
        "T01-a-copy",
        ("tying",),
        ((TIED, "self.lm_head.weight = nn.Parameter(self.wte.weight.clone())"),),
        {"config.tied": True},
        {"tied": True},
    ),
    Fault("T03", ("tying",), ((TIED, "pass"),), {"config.tied": True}, {"tied": True}),
    Fault(
        "tied-by-memory",
        ("tying",),
        ((TIED, "self.lm_head.weight = nn.Parameter(self.wte.weight.data)"),),
        {"config.tied": True},
    ),
    Fault(
        "untied-by-loading",
        ("tying",),
        (
            (
                "    def _init(self, module):",
                (
                    "    def load_state_dict(self, state, strict=True):\n"
                    "        result = super().load_state_dict(state, strict)\n"
                    "        self.lm_head.weight = nn.Parameter(state['lm_head.weight'].clone())\n"
                    "        return result\n\n"
                    "    def _init(self, module):"
                ),
            ),
        ),
        {"config.tied": True},
    ),
]

STATE = [
    Fault("left-unfilled", ("state",), (), ALIBI, ON_META),
    Fault(
        "asks-for-a-value-while-building",
        ("state",),
        ((INIT, f"{INIT}\n        self.width = self.wte.weight.sum().item()"),),
        {},
        ON_META,
    ),
    Fault(
        "decoding-leaves-its-offset",
        ("state",),
        (
            (
                "n = 0 if past is None else past[0][0].size(2)",
                (
                    "held = 0 if past is None else past[0][0].size(2)\n"
                    "        self.read = max(getattr(self, 'read', 0), held)\n"
                    "        n = self.read // 8 if past is None else held"
                ),
            ),
        ),
        LEARNED,
    ),
]

INITIALISATION = [
    Fault(
        "I02",
        ("init",),
        ((INIT, f"{INIT}\n        self.wte = nn.Embedding(config.vocab_size, config.n_embd)"),),
        {"config.tied": True},
    ),
    Fault("I01", ("init",), ((SPREAD, "nn.init.normal_(module.weight, std=1.0)"),)),
]

FAULTS = [*PACKING, *LOSSES, *PARAMETERS, *TYING, *STATE, *INITIALISATION]
