"""Faults of packed rows, ragged losses and kept state are caught, and the part is named."""

from pathlib import Path

import pytest
from state_faults import FAULTS

import theodolite

SERVING = Path(__file__).parent / "models" / "serving.py"
CHECKS = (
    "packing", "loss", "modules", "gradient.every_parameter", "parameters", "tying", "declared",
    "state",
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_caught_and_its_component_named(fault, tmp_path):
    report = theodolite.audit(
        fault.write(tmp_path), settings=fault.settings, declare=fault.declare, select=CHECKS
    )
    assert report.verdict == "fail"
    accused = {check.id: (check.component, check.message) for check in report.failures}
    assert report.diagnosis[0]["component"] in fault.components, accused


def test_without_a_fault_the_model_passes_and_its_packing_is_said():
    report = theodolite.audit(f"{SERVING}:Model", select=CHECKS)
    assert report.verdict == "pass", [check.message for check in report.failures]
    assert "documents packed into one row are told apart by document_ids" in report.notes
