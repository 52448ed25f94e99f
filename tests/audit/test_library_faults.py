"""Faults between training and serving are caught in a library's models, and the part is named."""

import pytest
from hosts import huggingface_source, written
from library_faults import GPT2, LLAMA

import theodolite

pytest.importorskip("transformers")
SERVING = ("cache", "padding", "packing", "positions")
BUILDING = (
    "modules", "gradient.every_parameter", "parameters", "tying", "declared.tied", "state", "init",
    "vocabulary", "loss",
)  # fmt: skip
CHECKS = dict.fromkeys(("cache", "rope", "position", "mask", "padding"), SERVING)
"""Component → the checks that are run; every other has those of `BUILDING`."""

FEW = {"count-ignored", "A01", "left-unfilled", "tied-by-memory", "last-layer-skipped"}
"""Faults of every run; the others have the slow suite."""

CASES = [
    pytest.param(
        host,
        fault,
        id=f"{fault.id}-in-{host}",
        marks=[] if fault.id in FEW and host == "llama" else [pytest.mark.slow],
    )
    for host, faults in (("llama", LLAMA), ("gpt2", GPT2))
    for fault in faults
]


@pytest.mark.parametrize(("host", "fault"), CASES)
def test_a_fault_of_a_library_s_model_is_caught_and_its_component_named(host, fault, tmp_path):
    source = fault.applied_to(huggingface_source(host, **fault.settings))
    report = theodolite.audit(
        written(source, tmp_path, "small"),
        declare=fault.declare,
        select=CHECKS.get(fault.component, BUILDING),
    )
    failures = {
        check.id: (check.component, check.cause, check.message) for check in report.failures
    }
    assert report.verdict == "fail"
    assert report.diagnosis[0]["component"] == fault.component, failures
    assert fault.cause in {None, *(cause for _, cause, _ in failures.values())}, failures


@pytest.mark.slow
@pytest.mark.parametrize("host", ["llama", "gpt2"])
def test_the_source_without_a_fault_passes(host, tmp_path):
    report = theodolite.audit(
        written(huggingface_source(host), tmp_path, "small"), select=(*SERVING, *BUILDING)
    )
    assert report.verdict == "pass", [check.message for check in report.failures]
