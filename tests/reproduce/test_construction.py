"""A script builds the model as the audit did, however the model is written and named."""

import pytest

from ..loading.served import LAST_ALONE, ONE_ROW, ONE_SEQUENCE, ONE_TOKEN

NO_MASK = """
import torch
from torch import nn


class Mean(nn.Module):
    # every position sees the mean of all: the future too

    def forward(self, x):
        return x + x.mean(1, keepdim=True)
"""

PLAIN = (
    NO_MASK
    + """

class Model(nn.Module):
    def __init__(self, vocab_size, d_model=24):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, d_model)
        self.mean, self.head = Mean(), nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        return self.head(self.mean(self.emb(ids)))
"""
)

SCRIPT = (
    """
text = open("no_such_text.txt").read()
n_embd, vocab_size = 24, len(set(text))
n_layer = 2
"""
    + NO_MASK
    + """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, n_embd)
        self.layers = nn.ModuleList([Mean() for _ in range(n_layer)])
        self.head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets=None):
        x = self.emb(idx)
        for layer in self.layers:
            x = layer(x)
        return self.head(x), None


model = Model()
for step in range(1000):
    model(torch.tensor([[1, 2, 3]]))[1].backward()
"""
)

CONFIG_OF_NOTHING = (
    NO_MASK
    + """

class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.emb = nn.Embedding(config.vocab_size, config["n_embd"])
        self.mean, self.head = Mean(), nn.Linear(config.n_embd, config.vocab_size)

    def forward(self, ids):
        return {"hidden": None, "logits": self.head(self.mean(self.emb(ids)))}
"""
)

INSTANCE = (
    PLAIN
    + """

small = Model(31)
"""
)

SEQUENCE_FIRST = PLAIN.replace(
    "return self.head(", "ids = ids.t()\n        return self.head("
).replace("(self.emb(ids)))", "(self.emb(ids))).transpose(0, 1)")

CASES = {
    "a class": (PLAIN, "model.py:Model"),
    "a training script": (SCRIPT, "train.py:Model"),
    "a configuration that nothing defines": (CONFIG_OF_NOTHING, "model.py:Model"),
    "an instance": (INSTANCE, "model.py:small"),
    "a file whose name is no identifier": (PLAIN, "my-model.py:Model"),
    "ids of another layout": (SEQUENCE_FIRST, "model.py:Model", {"layout": "sequence"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_is_built_in_a_few_lines(case, reproduce, tmp_path, monkeypatch):
    source, spec, *declare = CASES[case]
    (tmp_path / spec.partition(":")[0]).write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = reproduce(spec, select=("causality.perturb",), declare=dict(*declare))
    ((check, script),) = found.scripts.items()
    ((status, said),) = found.outcomes().values()
    assert check == "causality.perturb"
    assert status == 1
    assert said.startswith("AssertionError: later tokens change earlier logits")
    assert "torch.tensor([[0, 1]])" in script.read_text(encoding="utf-8")


def test_what_is_cut_from_a_training_script_is_said(reproduce, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(SCRIPT, encoding="utf-8")
    found = reproduce(f"{file}:Model", select=("causality.perturb",))
    text = found.scripts["causality.perturb"].read_text(encoding="utf-8")
    assert "# of train.py only what Model needs is executed" in text


def test_a_module_of_a_package_is_imported_by_its_name(reproduce, tmp_path, monkeypatch):
    (tmp_path / "zoo_of_mine").mkdir()
    (tmp_path / "zoo_of_mine" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "zoo_of_mine" / "gpt.py").write_text(PLAIN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = reproduce("zoo_of_mine.gpt:Model", select=("causality.perturb",))
    text = found.scripts["causality.perturb"].read_text(encoding="utf-8")
    assert "from zoo_of_mine.gpt import Model" in text
    assert [status for status, _ in found.outcomes().values()] == [1]


def test_a_library_model_is_built_from_its_own_configuration(reproduce):
    pytest.importorskip("transformers")
    found = reproduce("hf:llama", select=("declared",), declare={"tied": True})
    ((status, said),) = found.outcomes().values()
    assert status == 1
    assert "are not one parameter" in said
    text = found.scripts["declared.tied"].read_text(encoding="utf-8")
    assert "from transformers import LlamaConfig, LlamaForCausalLM" in text
    assert "vocab_size=97" in text
    assert "rms_norm_eps" not in text  # it is the library's default


def test_a_failure_without_a_script_says_why_in_panel_and_list(reproduce, tmp_path, capsys):
    file = tmp_path / "model.py"
    file.write_text(PLAIN, encoding="utf-8")
    found = reproduce(f"{file}:Model", select=("declared",), declare={"heads": 3, "layers": 9})
    assert found.scripts == {}
    (failed,) = found.failed.values()
    assert failed["no_script"] == "what it measures cannot be shown in a few lines"
    assert failed["no_script"] in " ".join(capsys.readouterr().out.split())
    listed = (tmp_path / "scripts" / "README.md").read_text(encoding="utf-8")
    assert f"`{failed['id']}`: {failed['no_script']}" in listed


def test_the_audited_process_is_left_as_it_was(reproduce, tmp_path):
    import sys

    import torch

    file = tmp_path / "model.py"
    file.write_text(PLAIN, encoding="utf-8")
    before = list(sys.path), torch.is_grad_enabled(), torch.get_rng_state()
    reproduce(f"{file}:Model", select=("causality.perturb",))
    assert (sys.path, torch.is_grad_enabled()) == before[:2]
    assert torch.equal(torch.get_rng_state(), before[2])
    assert "model" not in sys.modules


@pytest.mark.parametrize(
    ("name", "source"),
    [("Row", ONE_ROW), ("Served", ONE_TOKEN), ("Row", ONE_SEQUENCE), ("Row", LAST_ALONE)],
    ids=["one row", "one token", "one sequence", "the last position"],
)
def test_a_forward_that_is_put_together_is_put_together_in_the_script_too(
    name, source, reproduce, shows_and_mends, tmp_path
):
    file = tmp_path / "parts.py"
    head = next(line for line in source.splitlines() if "return self.head(" in line)
    file.write_text(source.replace(head, f"{head}.softmax(-1)"), encoding="utf-8")
    found = reproduce(f"{file}:{name}", select=("logits.unnormalised",))
    assert list(found.scripts) == ["logits.unnormalised"]
    shows_and_mends(found, file, source)
