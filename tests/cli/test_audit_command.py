"""``theodolite audit`` from end to end."""

import math
from xml.etree import ElementTree as ET

import pytest

BIGRAM = """
from torch import nn


class Bigram(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, ids):
        return self.table(ids)
"""


def test_the_reference_passes(process):
    outcome = process("audit")
    assert outcome.status == 0
    assert "PASS" in outcome.out
    assert "checks passed" in outcome.out.splitlines()[0]


def test_the_json_report_has_the_documented_shape(theodolite):
    outcome = theodolite("audit", "reference", "--json", "-", "--budget", "quick")
    report = outcome.json
    assert report["schema"] == "theodolite-report/2"
    assert report["verdict"] == "pass"
    assert set(report["summary"]) == {
        "planned", "passed", "failed", "hazards", "expected_failures", "not_applicable", "errors",
    }  # fmt: skip
    assert report["summary"]["planned"] == len(report["checks"])
    assert {
        "id",
        "claims",
        "component",
        "outcome",
        "message",
        "measured",
        "at_most",
        "where",
    } <= set(report["checks"][0])


def test_a_bigram_fails_by_the_checks_of_the_past(theodolite, tmp_path):
    (tmp_path / "bigram.py").write_text(BIGRAM, encoding="utf-8")
    junit = tmp_path / "report.xml"
    outcome = theodolite("audit", "bigram.py:Bigram", "--junit", junit)
    assert outcome.status == 1
    assert "causality.past" in outcome.out
    assert "vocab_size was chosen as" in outcome.out
    suite = ET.fromstring(junit.read_text(encoding="utf-8"))
    assert int(suite.attrib["failures"]) >= 1


def test_expected_failures_are_strict(theodolite, tmp_path):
    (tmp_path / "bigram.py").write_text(BIGRAM, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.theodolite]\nsubject = "bigram.py:Bigram"\n[tool.theodolite.expected-failures]\n'
        '"causality.past" = "it is a bigram"\n"shape.runs" = "wrongly listed"\n',
        encoding="utf-8",
    )
    report = theodolite("audit", "--json", "-").json
    outcomes = {check["id"]: check for check in report["checks"]}
    assert outcomes["causality.past"]["outcome"] == "expected_failure"
    assert outcomes["shape.runs"]["outcome"] == "failed"
    assert "expected to fail" in outcomes["shape.runs"]["message"]


def test_selecting_a_group_runs_it_alone(theodolite):
    report = theodolite("audit", "--select", "causality", "--json", "-").json
    assert {check["id"].partition(".")[0] for check in report["checks"]} == {"causality"}


def test_settings_reach_the_model(theodolite):
    words = ("--set", "vocabulary=31", "--select", "loss.initial", "--json", "-")
    report = theodolite("audit", *words).json
    assert report["checks"][0]["at_most"] == pytest.approx(math.log(31) + 1)


def test_versions_are_named(process):
    outcome = process("--version")
    assert outcome.status == 0
    assert all(word in outcome.out for word in ("theodolite", "torch", "Python"))


def test_every_command_shows_an_example(theodolite):
    for command in ("audit", "claims", "survey"):
        outcome = theodolite(command, "--help")
        assert outcome.status == 0
        assert f"theodolite {command}" in outcome.out
