"""A failure is explained: what was expected, measured, where, why it must hold, what it may be."""

import io
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from theodolite.explanation import explanation
from theodolite.formats import junit
from theodolite.properties.ledger import load_ledger
from theodolite.report import Check, Report
from theodolite.terminal import render

CLAIMS = {claim.id: claim for claim in load_ledger()}
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
    remedy="is the mask applied, on the key axis, before softmax?",
)
AGAIN = replace(FAILED, id="causality.shapes")


def shown(*checks):
    """The panels on a terminal of 100 columns, in one line."""
    console = Console(file=io.StringIO(), width=100)
    render(Report("model.py:Model", checks), console)
    return " ".join(console.file.getvalue().replace("│", " ").split())


@pytest.mark.parametrize(
    "text",
    [
        "tokens after a position do not change its logits",
        "0.31, may be at most 1e-05",
        "view sharpened, position 8",
        "is the mask applied, on the key axis, before softmax?",
        "future-visible (mask)",
        "theodolite audit model.py:Model --select causality.perturb",
        CLAIMS["ATT-4"].statement,
        CLAIMS["ATT-4"].why,
    ],
)
def test_a_panel_says(text):
    assert text in shown(FAILED)


def test_a_claim_is_explained_once():
    text = shown(FAILED, AGAIN)
    assert text.count(CLAIMS["ATT-4"].why) == 1
    assert "ATT-4 (see above)" in text


def test_a_panel_is_short():
    console = Console(file=io.StringIO(), width=100)
    render(Report("model.py:Model", (FAILED, AGAIN)), console)
    lines = console.file.getvalue().splitlines()
    borders = [number for number, line in enumerate(lines) if line.startswith(("╭", "╰"))]
    heights = [end - start for start, end in zip(borders[::2], borders[1::2], strict=True)]
    assert max(heights) <= 20
    assert heights[1] <= 10


def test_a_script_or_the_lack_of_one_is_named():
    assert "failures/causality.perturb.py" in shown(
        replace(FAILED, script="failures/causality.perturb.py")
    )
    assert "none: it needs more" in shown(replace(FAILED, no_script="it needs more"))


def test_the_likely_causes_are_those_of_the_diagnosis():
    report = Report("model.py:Model", (FAILED,))
    lines = dict(explanation(FAILED, report))
    assert report.causes[0].says in lines["likely"]


def test_what_could_not_be_carried_out_is_told_by_its_message():
    broken = Check("causality.perturb", ("ATT-4",), "mask", "error", "RuntimeError: no memory")
    lines = dict(explanation(broken, Report("model.py:Model", (broken,))))
    assert lines["expected"] == "RuntimeError: no memory"
    assert "measured" not in lines


def test_junit_carries_the_explanation():
    suite = ET.fromstring(junit.write(Report("model.py:Model", (FAILED,))))
    text = suite.find("testcase/failure").text
    assert f"why: {CLAIMS['ATT-4'].why}" in text
    assert "measured: 0.31, may be at most 1e-05" in text


def test_json_carries_the_parts_of_the_explanation():
    check = Report("model.py:Model", (FAILED,)).to_dict()["checks"][0]
    assert check["expected"] == FAILED.expected
    assert check["remedy"] == FAILED.remedy
    assert {"view", "script", "no_script"} <= set(check)
