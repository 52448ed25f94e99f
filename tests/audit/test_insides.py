"""What outputs hardly show is seen inside, in a hand-written model and in one of a library."""

from pathlib import Path

import pytest
from hosts import written
from inside_faults import (
    ATTENTION,
    DESIGNS,
    FEED_FORWARD,
    NORMS,
    RESIDUAL,
    ROPE,
    SINKS,
    llama_source,
)

import theodolite

GROUPS = ("inside", "heads", "rope", "norm", "feed_forward", "residual", "assembly", "batch")
FAULTS = [*ATTENTION, *ROPE, *NORMS, *RESIDUAL, *FEED_FORWARD, *SINKS]
BY_HAND = f"{Path(__file__).parent / 'models' / 'by_hand.py'}:Model"
VARIANTS = [{}, {"config.flash": True}, {"config.n_expert": 4}]

ONE_OF_EACH_KIND = {
    "C05", "M16", "H06", "H01", "G01-keys-alone", "R07", "values-rotated", "N05", "N12",
    "no-skip-around-attention", "F01", "mean-over-positions", "S03",
}  # fmt: skip
"""The faults that every run tries, at least one a component; the others have the slow suite."""


def faults_in(host):
    """The faults to try in "by hand" or "llama"."""
    slow = pytest.mark.slow
    return [
        pytest.param(fault, id=fault.id, marks=[] if fault.id in ONE_OF_EACH_KIND else [slow])
        for fault in FAULTS
        if (fault.llama if host == "llama" else fault.by_hand)
    ]


def look_inside(spec, **options):
    return theodolite.audit(spec, select=GROUPS, **options)


def messages(report):
    return [f"{check.id}: {check.message}" for check in report.failures]


@pytest.mark.parametrize("fault", faults_in("by hand"))
def test_a_fault_of_a_hand_written_model_is_seen_and_named(fault, tmp_path):
    report = look_inside(fault.write(tmp_path, "by hand"))
    assert names(fault, report), messages(report)


@pytest.mark.parametrize("fault", faults_in("llama"))
def test_the_same_fault_of_a_hugging_face_llama_is_seen_and_named(fault, tmp_path):
    pytest.importorskip("transformers")
    report = look_inside(fault.write(tmp_path, "llama"))
    assert names(fault, report), messages(report)


def test_a_fault_of_each_component_is_tried_in_every_run():
    tried = {fault.component for fault in FAULTS if fault.llama and fault.id in ONE_OF_EACH_KIND}
    assert tried == {fault.component for fault in FAULTS if fault.llama}


@pytest.mark.parametrize("host", ["by hand", "llama"])
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.id)
def test_a_design_is_no_fault(design, host, tmp_path):
    if host == "llama":
        pytest.importorskip("transformers")
    report = look_inside(design.write(tmp_path, host))
    assert report.verdict == "pass", messages(report)


@pytest.mark.parametrize("settings", VARIANTS, ids=["explicit", "fused", "experts"])
def test_a_hand_written_model_without_a_fault_passes(settings):
    report = look_inside(BY_HAND, settings=settings)
    assert report.verdict == "pass", messages(report)


def test_a_hugging_face_llama_without_a_fault_passes(tmp_path):
    pytest.importorskip("transformers")
    report = look_inside(written(llama_source(), tmp_path, "small"))
    assert report.verdict == "pass", messages(report)


def test_a_declared_scale_is_held_to(tmp_path):
    fault = next(fault for fault in ATTENTION if fault.id == "C02")
    spec = fault.write(tmp_path, "by hand")
    declared = look_inside(spec, declare={"scale": 1.0})
    assert declared.verdict == "pass", messages(declared)
    wrong = look_inside(BY_HAND, declare={"scale": 1.0})
    assert [check.id for check in wrong.failures] == ["inside.scale"]


def test_groups_that_take_turns_are_a_fault_where_neighbours_are_declared(tmp_path):
    source = (Path(__file__).parent / "models" / "by_hand.py").read_text(encoding="utf-8")
    repeat = "repeat_interleave(self.n_head // self.n_kv_head, dim=1)"
    assert source.count(repeat) == 2
    spec = written(source.replace(repeat, "repeat(1, 3, 1, 1)"), tmp_path, "Model")
    assert theodolite.audit(spec, select="heads").verdict == "pass"
    declared = theodolite.audit(spec, select="heads", declare={"groups": "neighbours"})
    assert [check.cause for check in declared.failures] == ["groups-tiled"]


def test_a_missing_final_norm_can_be_declared_and_is_then_held_to(tmp_path):
    fault = next(fault for fault in RESIDUAL if fault.id == "N14")
    options = {"declare": {"final_norm": False}, "select": "assembly"}
    assert theodolite.audit(fault.write(tmp_path, "by hand"), **options).verdict == "pass"
    assert theodolite.audit(BY_HAND, **options).verdict == "fail"


def names(fault, report):
    """Whether a failure of `report` accuses the component and names the cause of `fault`."""
    accused = {(check.component, check.cause) for check in report.failures}
    return (fault.component, fault.cause) in accused or (
        fault.cause is None and fault.component in {component for component, _ in accused}
    )
