"""What goes wrong in a use that nobody declared is told and counted, and fails nobody."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from decoders import Lectures, Rotary, Sizes, rotary

import theodolite
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.subject.uses import USES
from theodolite.formats import junit
from theodolite.properties.source import PROPERTIES, _decorated

HALF = "precision.late"
NEGATIVE = "vocabulary.range"


class LooksUp(Lectures):
    """Reads its table as ``weight[ids]``, which takes -1 for the last row."""

    def forward(self, ids):
        places = self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(self.tokens.weight[ids] + places)))


class Clamps(Lectures):
    """Takes any id past the end for the last."""

    def forward(self, ids):
        return super().forward(ids.clamp(max=28))


class Counts(Rotary):
    """Angles are computed in the dtype of the stream: in bfloat16 late positions are one."""

    def forward(self, ids):
        x = self.tokens(ids)
        steps = self.angles[1].to(x.dtype)
        places = torch.arange(ids.shape[1]).to(x.dtype)
        for layer in self.layers:
            x = layer(x, places[:, None] * steps)
        return self.head(self.norm(x))


def counting():
    return Counts(Sizes(max_seq_len=512))


def by_id(report):
    return {check.id: check for check in report.checks}


def test_an_id_below_zero_that_is_read_is_a_hazard():
    report = theodolite.audit(LooksUp(64), select="vocabulary")
    assert report.verdict == "pass"
    assert (report.summary["hazards"], report.summary["failed"]) == (1, 0)
    assert [check.id for check in report.hazards] == [NEGATIVE]
    assert not report.failures
    assert not report.diagnosis
    report.raise_for_failures()


def test_an_id_past_the_end_that_is_read_is_a_fault():
    report = theodolite.audit(Clamps(64), select="vocabulary")
    assert report.verdict == "fail"
    assert by_id(report)[NEGATIVE].level == "fault"


def test_float32_weights_promise_nothing_of_bfloat16():
    report = theodolite.audit(counting(), select="precision")
    assert by_id(report)[HALF].outcome == "failed"
    assert by_id(report)[HALF].level == "hazard"
    assert report.verdict == "pass"


@pytest.mark.parametrize("uses", [["bfloat16", "compile"], "bfloat16,compile", "bfloat16"])
def test_where_the_use_is_declared_it_is_a_fault(uses):
    report = theodolite.audit(counting(), select="precision", declare={"uses": uses})
    assert report.verdict == "fail"
    assert by_id(report)[HALF].level == "fault"


def test_where_the_weights_are_bfloat16_it_is_a_fault():
    report = theodolite.audit(counting().bfloat16(), select="precision")
    assert by_id(report)[HALF].level == "fault"
    assert report.verdict == "fail"


def test_where_the_configuration_names_bfloat16_it_is_a_fault():
    model = counting()
    model.config = {"dtype": "bfloat16"}
    assert by_id(theodolite.audit(model, select="precision"))[HALF].level == "fault"


def test_strict_fails_for_hazards():
    report = theodolite.audit(LooksUp(64), select="vocabulary", strict=True)
    assert report.verdict == "fail"
    assert (report.summary["failed"], report.summary["hazards"]) == (1, 1)
    with pytest.raises(AssertionError, match="outside the vocabulary, is read"):
        report.raise_for_failures()


def test_a_use_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="uses"):
        theodolite.audit(LooksUp(64), declare={"uses": ["bfloat17"]})


def test_hazards_are_shown_after_faults_and_are_no_failures_of_a_test_suite():
    report = theodolite.audit(LooksUp(64), select="vocabulary")
    assert "<failure" not in junit.write(report)
    assert "hazard: " in junit.write(report)
    assert json.loads(json.dumps(report.to_dict()))["summary"]["hazards"] == 1
    assert "<i>hazard</i> vocabulary" in report._repr_html_()
    assert "1 hazard" in report._repr_html_()


def test_an_expected_hazard_that_does_not_come_fails():
    report = theodolite.audit(
        rotary(64), select="vocabulary", expected_failures={NEGATIVE: "meant"}
    )
    assert report.verdict == "fail"


def test_right_models_have_no_hazard():
    assert not theodolite.audit(rotary(64), select=["precision", "vocabulary"]).hazards


def test_every_hazard_names_a_use_that_can_be_declared():
    calls = [
        call
        for path in sorted(PROPERTIES.glob("checks/test_*.py"))
        for _, _, call in _decorated(path, "check")
    ]
    hazards = {call.ids[0]: call.options.get("use") for call in calls if "level" in call.options}
    assert set(hazards) == {
        "backend.compiled",
        "backend.exported",
        "padding.empty_row",
        "padding.half_precision",
        "precision.autocast",
        "precision.half",
        "precision.late",
    }
    assert set(hazards.values()) <= set(USES)


def test_the_command_is_green_for_a_hazard_and_red_if_strict(tmp_path):
    source = (
        "import torch\nfrom decoders import *\n\n\nclass LooksUp(Lectures):\n"
        "    def forward(self, ids):\n"
        "        x = self.tokens.weight[ids] + self.places(torch.arange(ids.shape[1]))\n"
        "        return self.head(self.norm(self.blocks(x)))\n"
    )
    (tmp_path / "model.py").write_text(source)
    (tmp_path / "decoders.py").write_text((Path(__file__).parent / "decoders.py").read_text())
    command = [sys.executable, "-m", "theodolite", "audit", "model.py:LooksUp"]
    command += ["--set", "context=64", "--select", "vocabulary"]

    def status(*more):
        return subprocess.run(
            [*command, *more], cwd=tmp_path, check=False, capture_output=True, timeout=600
        ).returncode

    assert status() == 0
    assert status("--strict") == 1
    assert status("--declare", "uses=negative_ids") == 1
    (tmp_path / "pyproject.toml").write_text("[tool.theodolite]\nstrict = true\n")
    assert status() == 1
