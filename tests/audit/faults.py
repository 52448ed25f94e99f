"""Faults that people really made, each as a change of one place in a hand-written model."""

from dataclasses import dataclass, field
from pathlib import Path

from hosts import changed, written

SOURCE = (Path(__file__).parent / "models" / "by_hand.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Fault:
    """One fault: what it replaces by what, and the components that a report may accuse first."""

    id: str
    component: str
    old: str
    new: str
    settings: dict = field(default_factory=dict)

    def write(self, folder):
        """Write the faulty model to `folder` and name it as a subject."""
        source = changed(SOURCE, [(self.old, self.new)], self.id)
        return written(source, folder, "Model", file="by_hand.py")


TRIANGLE = "mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()[None, None]"
FILL = 'scores = scores.masked_fill(~mask, float("-inf"))'
SOFTMAX = "weights = scores.softmax(dim=-1)"
PAD = "mask = mask & pad_mask.bool()[:, None, None, :]"
JOIN = "y = y.transpose(1, 2).contiguous().view(B, T, C)"
ROTATE = "q, k = rotate(q, cos, sin), rotate(k, cos, sin)"
FLASH = {"config.flash": True}

FAULTS = [
    Fault("M01", "mask", TRIANGLE, TRIANGLE.replace(".tril()", ".triu()")),
    Fault("M04", "mask", FILL, "scores = scores.masked_fill(~mask, -1e4)"),
    Fault("M04-ten", "mask", FILL, "scores = scores.masked_fill(~mask, -10.0)"),
    Fault(
        "M06",
        "mask",
        "        if pad_mask is not None:",
        "        if pad_mask is None:\n            mask = torch.ones_like(mask)\n        else:",
    ),
    Fault(
        "M08",
        "mask",
        PAD,
        "mask = torch.ones_like(mask) if bool(pad_mask.all()) else "
        "mask & pad_mask.bool()[:, None, None, :]",
        FLASH,
    ),
    Fault(
        "M16",
        "softmax",
        FILL + "\n            " + SOFTMAX,
        "weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)",
    ),
    Fault(
        "S02",
        "softmax",
        SOFTMAX,
        "weights = scores.flatten(0, 1).softmax(dim=0).view_as(scores).nan_to_num()",
    ),
    Fault("rotated-v", "rope", ROTATE, ROTATE + "\n        v = rotate(v, cos, sin)"),
    Fault("N10", "norm", "self.mlp(self.ln2(x))", "self.mlp(self.ln1(x))"),
    Fault("H01", "heads", JOIN, "y = y.contiguous().view(B, T, C)"),
    Fault(
        "H08",
        "batch",
        "x = x + self.attn(self.ln1(x), cos, sin, pad_mask)",
        "h = self.ln1(x).transpose(0, 1)\n"
        "        x = x + self.attn(h, cos[: h.shape[1]], sin[: h.shape[1]]).transpose(0, 1)",
    ),
    Fault(
        "I01",
        "init",
        "self.apply(self._init)",
        "self.apply(self._init)\n        nn.init.normal_(self.lm_head.weight, std=1.0)",
    ),
    Fault(
        "Q01",
        "parameters",
        "nn.ModuleList([Block(config) for _ in range(config.n_layer)])",
        "[Block(config) for _ in range(config.n_layer)]",
    ),
    Fault("O01", "dropout", "self.dropout if self.training else 0.0", "self.dropout", FLASH),
    Fault(
        "E02",
        "moe",
        "weights = weights / weights.sum(-1, keepdim=True)",
        "weights = weights / weights.norm(dim=1, keepdim=True)",
        {"config.n_expert": 4},
    ),
    Fault(
        "R17", "gradient", "def rotate(x, cos, sin):", "@torch.no_grad()\ndef rotate(x, cos, sin):"
    ),
]
