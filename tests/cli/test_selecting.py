"""Choosing checks: by name, by claim, by expression; listing, skipping, stopping, timing."""

import json
import shlex

import pytest

MODEL = """
from torch import nn


class Bigram(nn.Module):
    def __init__(self, vocab_size, bias=False, sizes=(8, 9), name="it's"):
        super().__init__()
        assert not bias and sizes == (8, 9) or name == "$HOME 'x'"
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, ids):
        return self.table(ids)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "bigram.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def listed(outcome):
    assert outcome.status == 0, outcome.err
    return [check["id"] for check in outcome.json["checks"]]


def test_every_check_is_listed_with_its_claims(process):
    outcome = process("audit", "--list")
    assert outcome.status == 0
    assert "causality.perturb" in outcome.out
    assert "ATT-4" in outcome.out


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        (["--select", "cache"], lambda check: check["id"].startswith("cache.")),
        (["--select", "ATT-4"], lambda check: "ATT-4" in check["claims"]),
        (["--select", "STAB"], lambda check: any(c.startswith("STAB-") for c in check["claims"])),
        (["-k", "rope and not values"], lambda check: "values" not in check["id"]),
        (["--select", "cache", "--skip", "cache.long"], lambda check: check["id"] != "cache.long"),
        (["--skip", "ATT-4"], lambda check: "ATT-4" not in check["claims"]),
    ],
)
def test_checks_are_chosen_by_every_name_that_they_have(theodolite, words, holds):
    outcome = theodolite("audit", "--list", "--json", "-", *words)
    assert outcome.status == 0
    assert outcome.json["checks"]
    assert all(map(holds, outcome.json["checks"]))


def test_what_is_slow_is_listed_where_it_would_run(theodolite):
    words = ("audit", "--list", "--json", "-")
    slow = set(listed(theodolite(*words, "--budget", "thorough"))) - set(listed(theodolite(*words)))
    assert "backend.compiled" in slow
    assert listed(theodolite(*words, "--select", "backend.compiled")) == ["backend.compiled"]


@pytest.mark.parametrize("text", ["a or", "()", "rope[0]", "f(x)", "a b", "", "1 +", "not", "λ"])
def test_an_expression_that_means_nothing_is_refused(theodolite, text):
    outcome = theodolite("audit", "-k", text)
    assert outcome.status == 2
    assert "no expression" in outcome.err


def test_an_audit_of_nothing_is_refused(theodolite):
    outcome = theodolite("audit", "--select", "cache", "--skip", "cache")
    assert outcome.status == 2
    assert "no check is left to run" in outcome.err


def test_an_audit_stops_at_the_first_failure(theodolite, folder):
    words = ("audit", "my models/bigram.py:Bigram", "--json", "-")
    outcome = theodolite(*words, "--fail-fast")
    assert outcome.status == 1
    outcomes = [check["outcome"] for check in outcome.json["checks"]]
    assert outcomes.count("failed") == 1
    left = [check for check in outcome.json["checks"] if "--fail-fast" in check["message"]]
    assert left
    assert {check["outcome"] for check in left} == {"not_applicable"}


def test_the_slowest_checks_are_shown(theodolite):
    outcome = theodolite("audit", "--select", "batch", "--durations", "2")
    assert outcome.status == 0
    assert outcome.out.count(" s  batch.") == 2


def test_what_is_left_out_is_said(theodolite):
    outcome = theodolite("audit", "--select", "batch", "--skip", "batch.order")
    assert "left out: batch.order" in outcome.out


def test_the_command_of_a_report_is_whole_and_works_when_pasted(theodolite, folder):
    words = [
        "audit", "my models/bigram.py:Bigram", "--set", "bias=False", "--set", "sizes=(8, 9)",
        "--set", "name=$HOME 'x'", "--declare", "vocabulary=97", "--budget", "quick",
        "--select", "causality.past",
    ]  # fmt: skip
    report = theodolite(*words, "--json", "-").json
    command = shlex.split(report["command"])
    assert command[0] == "theodolite"
    again = theodolite(*command[1:], "--json", "-").json
    assert again["command"] == report["command"]
    assert [c["outcome"] for c in again["checks"]] == [c["outcome"] for c in report["checks"]]
    (check,) = report["checks"]
    assert shlex.split(check["reproduce"]) == command


def test_a_live_model_is_audited_again_from_python():
    import theodolite
    from theodolite.reference.bigram import Bigram

    report = theodolite.audit(Bigram(11), select="causality.past", declare={"vocabulary": 11})
    assert report.command == (
        "theodolite.audit(model, declare={'vocabulary': 11}, select=['causality.past'])"
    )
    assert json.loads(json.dumps(report.to_dict()))["command"] == report.command


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"time_limit": float("nan")}, "time limit of more than 0"),
        ({"time_limit": -1}, "time limit of more than 0"),
        ({"select": "causalty"}, "Did you mean causality"),
        ({"keyword": "("}, "no expression"),
        ({"expected_failures": {"causality.pst": "why"}}, "an expected failure is called"),
        ({"declare": {"window": 0}}, "window is declared as 0"),
    ],
)
def test_python_is_told_the_same(keywords, says):
    import theodolite
    from theodolite.fixtures.errors import UsageError
    from theodolite.reference.bigram import Bigram

    with pytest.raises(UsageError, match=says):
        theodolite.audit(Bigram(11), **keywords)
