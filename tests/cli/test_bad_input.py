"""Every mistake that a person can make ends in a sentence and the right exit status."""

import pytest

MODEL = """
import time
import torch
from torch import nn


class Good(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11)

    def forward(self, ids):
        return self.head(self.embedding(ids))


class TwoUnknown(Good):
    def __init__(self, wibble, wobble):
        super().__init__()


class LastOnly(Good):
    def forward(self, ids):
        return super().forward(ids)[:, -1]


class Raises(Good):
    def forward(self, ids):
        raise RuntimeError("the flux is not capacitated")


class GivesNaN(Good):
    def forward(self, ids):
        return super().forward(ids) / 0 * 0


class NoVocabulary(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(5, 8))
        self.head = nn.Linear(8, 11)

    def forward(self, ids):
        return self.head(self.codes[ids])


class Hangs(Good):
    def forward(self, ids):
        while True:
            time.sleep(0.01)


class OneAtATime(Good):
    def forward(self, ids):
        if ids.shape[1] != 1:
            raise ValueError("one token, please")
        return super().forward(ids)
"""

CASES = [
    # (subject, further words, exit status, what the sentence says)
    ("nowhere.py:GPT", [], 3, "nowhere.py"),
    ("model.py:Goood", [], 3, "Good"),
    ("no.such.package:GPT", [], 3, "no.such"),
    ("model.py:TwoUnknown", [], 3, "wibble, wobble"),
    ("model.py:Good", ["--set", "nonsense"], 2, "KEY=VALUE"),
    ("model.py:Good", ["--set", "nonsense=1"], 2, "nonsense"),
    ("model.py:Good", ["--declare", "colour=red"], 2, "colour"),
    ("model.py:Good", ["--budget", "huge"], 2, "quick"),
    ("model.py:Good", ["--select", "causality.nonsense"], 2, "causality.perturb"),
    ("model.py:LastOnly", [], 3, "logits at every position"),
    ("model.py:Raises", [], 3, "the flux is not capacitated"),
    ("model.py:NoVocabulary", [], 3, "--declare vocabulary=N"),
    ("model.py:OneAtATime", [], 3, "one token at a time"),
    ("model.py:Hangs", ["--time-limit", "1"], 3, "did not return within 1 s"),
    ("hf:no_such_model", [], 2, "no_such_model"),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("subject", "words", "status", "says"), CASES, ids=[f"{c[0]} {' '.join(c[1])}" for c in CASES]
)
def test_a_mistake_is_answered_by_a_sentence(theodolite, folder, subject, words, status, says):
    outcome = theodolite("audit", subject, *words, folder=folder)
    assert outcome.status == status
    assert says in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err


def test_a_process_ends_with_the_same_status_and_sentence(process, folder):
    outcome = process("audit", "model.py:Raises", folder=folder)
    assert outcome.status == 3
    assert "the flux is not capacitated" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_model_that_gives_nan_fails_and_nothing_misleading_follows(theodolite, folder):
    outcome = theodolite("audit", "model.py:GivesNaN", "--json", "-", folder=folder)
    assert outcome.status == 1
    report = outcome.json
    failed = {check["id"] for check in report["checks"] if check["outcome"] == "failed"}
    assert failed == {"logits.finite"}
    later = next(c for c in report["checks"] if c["id"] == "causality.perturb")
    assert later["outcome"] == "not_applicable"
    assert "logits.finite" in later["message"]


def test_a_subject_that_cannot_be_loaded_still_leaves_a_report(theodolite, folder):
    outcome = theodolite("audit", "model.py:Raises", "--json", "-", folder=folder)
    assert outcome.status == 3
    assert outcome.json["verdict"] == "error"
    assert "the flux is not capacitated" in outcome.json["error"]


def test_debug_shows_the_traceback(process, folder):
    outcome = process("audit", "--debug", "model.py:Raises", folder=folder)
    assert "Traceback" in outcome.err


def test_a_broken_pyproject_is_named(theodolite, folder):
    (folder / "pyproject.toml").write_text("[tool.theodolite]\ncolour = 1\n", encoding="utf-8")
    outcome = theodolite("audit", "model.py:Good", folder=folder)
    assert outcome.status == 2
    assert "colour" in outcome.err
