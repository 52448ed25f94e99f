"""``--baseline``: what is new fails, what was there is listed."""

import json

import pytest

LEAK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(19, 19)

    def forward(self, ids):
        return self.table(ids) {more}
"""
AUDIT = ("audit", "model.py:Model", "--budget", "quick", "--baseline", "known.json", "--json", "-",
         "--select", "causality.perturb", "--select", "causality.past", "--select",
         "state.repeat")  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def writes(more):
        (tmp_path / "model.py").write_text(LEAK.format(more=more), encoding="utf-8")

    return writes


def outcomes(report):
    return {check["id"]: check["outcome"] for check in report["checks"]}


def test_what_was_there_is_listed_and_what_is_new_fails(theodolite, write):
    write("")  # a bigram: no earlier token matters
    first = theodolite(*AUDIT, "--update-baseline")
    assert first.status == 0, first.err
    assert outcomes(first.json)["causality.past"] == "failed"
    again = theodolite(*AUDIT)
    assert again.status == 0, again.err
    assert outcomes(again.json)["causality.past"] == "expected_failure"
    assert "known from known.json" in json.dumps(again.json)

    write("+ self.table(ids).flip(1)")
    worse = theodolite(*AUDIT)
    assert worse.status == 1
    assert outcomes(worse.json)["causality.perturb"] == "failed"

    write("+ self.table(ids).cumsum(1)")
    mended = theodolite(*AUDIT)
    assert mended.status == 0
    assert outcomes(mended.json)["causality.past"] == "passed"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--baseline", "none.json"), "--update-baseline"),
        (("--baseline", "model.py"), "cannot be read"),
        (("--update-baseline",), "needs --baseline FILE"),
        (("--baseline", "no/where.json", "--update-baseline"), "a folder that exists"),
    ],
)
def test_a_baseline_that_cannot_be_had_is_said_at_once(theodolite, write, words, says):
    write("")
    outcome = theodolite("audit", "model.py:Model", *words)
    assert outcome.status == 2
    assert says in outcome.err
