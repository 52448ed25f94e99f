"""Reports for other programs: linters' lines, SARIF, GitLab, GitHub."""

import json
from pathlib import Path

import pytest
from sarif_pydantic import Sarif

from theodolite.causes import Cause
from theodolite.fixtures.judging.check import Check
from theodolite.formats import code_quality, concise, github, problems, sarif
from theodolite.report import Report

LINE = {"file": "my gpt.py", "line": 31, "function": "Attention.forward", "code": "att = att"}
FAILED = Check("causality.perturb", ("ATT-4",), "mask", "failed", "Query 3 sees key 4.")
HAZARD = Check(
    "precision.late", (), "rope", "failed", "Angles are lost, 50% of them.", level="hazard",
    source=LINE,
)  # fmt: skip
PASSED = Check("shape.runs", (), "shape", "passed", "")
ERROR = Check("cache.steps", (), "cache", "error", "the process ended itself")
CAUSE = Cause(
    "mask", "later-token-seen", "The first later token is seen: 31% of its weight.", 0.97,
    source=LINE, explains=("causality.perturb",),
)  # fmt: skip


@pytest.fixture
def report(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    where = {"file": str(tmp_path / LINE["file"])}
    told = CAUSE.at({**LINE, **where})
    return Report(
        "my gpt.py:GPT", (PASSED, FAILED, ERROR, HAZARD), told=(told,), command="theodolite audit"
    )


def test_problems_are_one_line_each_as_linters_print_them(report):
    assert concise.write(report).splitlines() == [
        "my gpt.py:31: mask.later-token-seen: The first later token is seen: 31% of its weight.",
        "my gpt.py: cache.steps: the process ended itself",
        "my gpt.py:31: hazard precision.late: Angles are lost, 50% of them.",
    ]


def test_a_report_without_a_problem_is_no_line():
    assert not concise.write(Report("m.py:GPT", (PASSED,)))
    assert json.loads(sarif.write(Report("m.py:GPT", (PASSED,))))["runs"][0]["results"] == []


def test_a_subject_that_is_no_file_has_its_name_as_place():
    assert concise.write(Report("hf:llama", error="it cannot be called")).startswith("hf:llama: ")


def test_sarif_is_valid_and_places_each_problem(report):
    text = sarif.write(report)
    Sarif.model_validate_json(text)
    (run,) = json.loads(text)["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["mask.later-token-seen", "cache.steps", "precision.late"]
    first, second, third = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "my%20gpt.py"}, "region": {"startLine": 31}}
    assert [each["level"] for each in (first, second, third)] == ["error", "error", "warning"]
    assert rules[first["ruleIndex"]] == first["ruleId"]
    assert run["invocations"][0]["executionSuccessful"] is True
    assert "**What to do**" in run["tool"]["driver"]["rules"][2]["help"]["markdown"]


def test_the_same_fault_keeps_its_fingerprint_when_lines_move(report):
    moved = Report(report.subject, report.checks, told=(report.causes[0].at({**LINE, "line": 99}),))
    one, two = (json.loads(sarif.write(each))["runs"][0]["results"][0] for each in (report, moved))
    assert one["partialFingerprints"] == two["partialFingerprints"]
    assert one["locations"] != two["locations"]


def test_gitlab_is_given_what_it_asks_for(report):
    for entry in json.loads(code_quality.write(report)):
        assert entry.keys() == {"check_name", "description", "severity", "fingerprint", "location"}
        assert entry["location"]["lines"]["begin"] >= 1
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}


def test_github_is_given_annotations_and_a_summary(report):
    first, *_, last = github.write(report).splitlines()
    assert first == (
        "::error file=my gpt.py,line=31,title=theodolite%3A mask.later-token-seen::"
        "The first later token is seen: 31%25 of its weight."
    )
    assert last.startswith("::warning file=my gpt.py,line=31,")
    summary = github.summary(report)
    assert "| error | `my gpt.py:31` | **mask.later-token-seen** The first" in summary
    assert "Theodolite: fail" in summary


def test_a_file_elsewhere_is_named_whole(report):
    away = Report(report.subject, report.checks, told=(CAUSE.at({**LINE, "file": "/there/m.py"}),))
    assert next(problems.problems(away)).place == "/there/m.py:31"
    uri = json.loads(sarif.write(away))["runs"][0]["results"][0]["locations"][0]
    assert uri["physicalLocation"]["artifactLocation"]["uri"] == Path("/there/m.py").as_uri()
