"""Each kind of fault that can be shown without Theodolite has its script, which shows it."""

import pytest

from theodolite.properties.mutants.hosts.text import BY_HAND, SERVING

FORWARD = "        x = self.tok(idx)\n"
IMPORT = "import math\n"
KINDS = {
    "default-dtype": (
        "state.process", FORWARD, "        torch.set_default_dtype(torch.float64)\n" + FORWARD
    ),
    "gradient-mode": (
        "state.process", FORWARD, "        torch.set_grad_enabled(False)\n" + FORWARD
    ),
    "environment": (
        "state.process", FORWARD,
        "        __import__('os').environ['SEEN'] = str(id(object()))\n" + FORWARD,
    ),
    "file": ("state.process", FORWARD, "        torch.save(idx, 'seen.pt')\n" + FORWARD),
    "list-of-the-model": (
        "state.growth", FORWARD,
        "        self.seen = getattr(self, 'seen', [])\n        self.seen.append(idx)\n" + FORWARD,
    ),
    "list-of-the-file": (
        "state.growth",
        f"{IMPORT}|{FORWARD}", f"{IMPORT}SEEN = []\n|        SEEN.append(idx)\n{FORWARD}",
    ),
    "sign-of-a-rotation": (
        "rope.relative",
        "rotate(q, cos, sin), rotate(k, cos, sin)", "rotate(q, cos, sin), rotate(k, cos, -sin)",
    ),
    "epsilon-outside": (
        "norm.epsilon",
        "torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)",
        "1 / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.eps)",
    ),
    "gate-that-adds": (
        "feed_forward.branches",
        "F.silu(self.gate(x)) * self.up(x)", "F.silu(self.gate(x)) + self.up(x)",
    ),
    "heads-averaged": (
        "heads.joined",
        "        y = y.transpose(1, 2)",
        "        y = y.mean(1, keepdim=True).expand_as(y)\n        y = y.transpose(1, 2)",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_the_script_of_a_kind_shows_it(kind, reproduce, shows_and_mends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them writes a file where it runs
    check, right, wrong = KINDS[kind]
    text = mended = BY_HAND.text()
    for old, new in zip(right.split("|"), wrong.split("|"), strict=True):
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "host.py"
    file.write_text(text, encoding="utf-8")
    found = reproduce(f"{file}:Model", select=(check,))
    assert list(found.scripts) == [check]
    shows_and_mends(found, file, mended)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("fault", "check"),
    [("loss-summed", "loss.own_logits"), ("one-position-vector-for-all", "positions.lookup")],
)
def test_the_script_of_a_served_model_shows_it(fault, check, reproduce, shows_and_mends, tmp_path):
    spec = SERVING.write(tmp_path, fault)
    found = reproduce(spec, select=(check,), **SERVING.options(fault))
    assert list(found.scripts) == [check]
    shows_and_mends(found, tmp_path / "host.py", SERVING.text())
