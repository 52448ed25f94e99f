"""The answer: one cause, one block, at its line; short, whole words, and everything with -v."""

import io
import json
from dataclasses import replace
from importlib.resources import files
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from rich.console import Console

from theodolite.causes import Cause
from theodolite.formats import junit
from theodolite.properties.ledger import load_ledger
from theodolite.report import Check, Report
from theodolite.terminal import render

CLAIMS = {claim.id: claim for claim in load_ledger()}
LINE = {
    "file": "my_gpt.py",
    "line": 31,
    "function": "Attention.forward",
    "code": "att = att.tril()",
}
FAILED = Check(
    "causality.perturb",
    ("ATT-4",),
    "mask",
    "failed",
    message="Changing later tokens changes the logits by 0.31; they must not change at all.",
    measured=0.31,
    at_most=1e-5,
    where={"view": "sharpened", "position": 8},
    cause="future-visible",
    reproduce="theodolite audit model.py:Model --select causality.perturb",
    expected="tokens after a position do not change its logits",
    remedy="Is the mask applied, on the key axis, before softmax?",
    source=LINE,
)
AGAIN = replace(FAILED, id="causality.shapes")
SCALE = replace(
    FAILED,
    id="inside.scale",
    claims=("SCL-5",),
    component="scale",
    cause="scale-missing",
    expected="scores are divided by the root of the head width",
    source={**LINE, "line": 28},
)
PASSED = Check("logits.finite", ("GPT-1",), "shape", "passed", measured=0.5, at_most=1.0)
ABSENT = Check("cache.steps", ("KVC-1",), "cache", "not_applicable", "no cache found")
ALIKE = replace(ABSENT, id="cache.chunks")
HAZARD = replace(FAILED, id="precision.half", level="hazard", component="dtype", cause=None)
REPORT = Report("model.py:Model", (PASSED, FAILED, AGAIN, ABSENT, ALIKE), seconds=4.1)


def shown(report, *, width=100, verbosity=0):
    """The lines of a report on a terminal."""
    console = Console(file=io.StringIO(), width=width)
    render(report, console, verbosity=verbosity)
    return console.file.getvalue().splitlines()


def words(report, **how):
    return " ".join(" ".join(shown(report, **how)).split())


def test_the_first_line_is_the_verdict():
    first = shown(REPORT)[0]
    assert first == "FAIL  model.py:Model   1 fault (seen by 2 checks)   4.1 s"
    assert shown(REPORT, verbosity=-1) == [first]


@pytest.mark.parametrize(
    "text",
    [
        "my_gpt.py:31 in Attention.forward",
        "31 │ att = att.tril()",
        "Changing later tokens changes the logits by 0.31; they must not change at all.",
        f"Why it matters ATT-4: {CLAIMS['ATT-4'].why}",
        "Again theodolite audit model.py:Model --select causality.perturb",
        "judged: forward.",
        "Not offered: cache.",
    ],
)
def test_a_cause_says(text):
    assert text in words(REPORT)


def test_a_cause_is_told_once_however_many_checks_saw_it():
    text = words(REPORT)
    assert text.count(CLAIMS["ATT-4"].why) == 1
    assert len(REPORT.causes) == 1
    assert REPORT.causes[0].explains == ("causality.perturb", "causality.shapes")


def test_causes_that_are_independent_are_told_apart():
    report = Report("model.py:Model", (FAILED, AGAIN, SCALE))
    assert [cause.component for cause in report.causes] == ["mask", "scale"]
    assert [cause.source["line"] for cause in report.causes] == [31, 28]
    assert "2 faults (seen by 3 checks)" in shown(report)[0]


def test_what_is_proved_is_said():
    cause = replace(REPORT.causes[0], proof="repaired", repair="With later keys hidden, all pass.")
    text = shown(replace(REPORT, told=(cause,)))
    assert any(line.endswith("proved by repair") for line in text)
    assert "With later keys hidden, all pass." in " ".join(text)


def test_a_script_is_named_instead_of_the_command():
    scripted = replace(FAILED, script="failures/causality_perturb.py")
    assert "Script failures/causality_perturb.py" in words(Report("m", (scripted,)))


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_longer_than_the_terminal_and_no_word_is_cut(width):
    long = replace(FAILED, message="a " * 300, remedy="Look at the mask. " * 30)
    checks = (*(replace(long, id=f"causality.{n}") for n in "abc"), SCALE, HAZARD, ABSENT)
    for verbosity in (0, 1):
        lines = shown(Report("model.py:Model", checks), width=width, verbosity=verbosity)
        assert all(len(line) <= width for line in lines)
        assert not any("…" in line for line in lines)


def test_an_answer_to_one_cause_is_short_however_much_there_is_to_say():
    long = replace(FAILED, message="The scores are too large. " * 30)
    report = Report("model.py:Model", (long, AGAIN, ABSENT), notes=("a note about it",) * 20)
    assert len(shown(report)) <= 25


def test_a_pass_is_short():
    report = Report("model.py:Model", (PASSED, ABSENT, ALIKE), notes=("a note about it",) * 20)
    assert len(shown(report)) <= 12
    assert shown(replace(report, notes=("vocabulary 61 was chosen",)))[2].startswith("note")


def test_more_words_list_every_check_and_equal_reasons_once():
    text = "\n".join(shown(REPORT, verbosity=1))
    assert "cache.steps, cache.chunks: no cache found" in text
    assert all(check.id in text for check in REPORT.checks)
    assert "cache.steps" not in "\n".join(shown(REPORT))


def test_a_hazard_is_a_line_after_the_faults():
    lines = shown(Report("model.py:Model", (FAILED, HAZARD)))
    assert "1 hazard" in lines[0]
    told = next(line for line in lines if line.startswith("hazard"))
    assert told.startswith("hazard  dtype: ")
    assert "my_gpt.py:31" in " ".join(lines[lines.index(told) :])


def test_what_could_not_be_carried_out_is_told():
    broken = Check("causality.perturb", ("ATT-4",), "mask", "error", "RuntimeError: no memory")
    assert "causality.perturb: RuntimeError: no memory" in words(Report("m", (broken, PASSED)))


def test_a_report_and_its_causes_are_short_objects():
    assert repr(REPORT) == "<Report FAIL model.py:Model: 1 fault (seen by 2 checks)>"
    assert isinstance(REPORT.causes[0], Cause)
    assert Cause.from_dict(REPORT.causes[0].to_dict()) == replace(
        REPORT.causes[0], probability=round(REPORT.causes[0].probability, 3)
    )


def test_a_notebook_shows_the_answer_as_html_with_nothing_unescaped():
    odd = replace(FAILED, source={**LINE, "code": "if a < b and c: <script>"})
    html = Report("<b>model</b>", (odd, ABSENT))._repr_html_()
    assert "if a &lt; b and c: &lt;script&gt;" in html
    assert "<b>model" not in html
    assert "<li>" in html
    assert "causality.perturb" in html
    parsed = ET.fromstring(html.replace("<br>", "<br/>"))
    assert parsed.tag == "div"


def test_junit_carries_the_explanation():
    suite = ET.fromstring(junit.write(Report("model.py:Model", (FAILED,))))
    text = suite.find("testcase/failure").text
    assert f"why: {CLAIMS['ATT-4'].why}" in text
    assert "measured: 0.31, may be at most 1e-05" in text
    assert "line: my_gpt.py:31  in Attention.forward" in text


SCHEMA = json.loads(
    files("theodolite").joinpath("schemas/report.schema.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        Report("m", (PASSED,), advice=({"says": "all layers are one module", "where": {}},)),
        Report("m", (FAILED, SCALE, HAZARD), strict=True),
        Report("m", error="it cannot be loaded"),
    ],
    ids=["fail", "pass", "strict", "error"],
)
def test_a_document_keeps_to_the_schema_that_is_shipped(report):
    document = json.loads(json.dumps(report.to_dict()))
    jsonschema.validate(document, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "verdict": "perhaps"}, SCHEMA)
