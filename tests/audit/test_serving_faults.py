"""Reported faults of caches, padding, losses and generation are caught, and the part is named."""

from pathlib import Path

import pytest
from serving_faults import FAULTS

import theodolite

SERVING = Path(__file__).parent / "models" / "serving.py"
CHECKS = ("cache", "padding", "positions", "loss", "generation", "init", "tying")
VARIANTS = [
    {},
    {"config.scheme": "learned"},
    {"config.scheme": "alibi"},
    {"config.window": 5},
    {"config.flash": True},
    {"config.tied": True},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_reported_fault_is_caught_and_its_component_named(fault, tmp_path):
    report = theodolite.audit(
        fault.write(tmp_path), settings=fault.settings, declare=fault.declare, select=CHECKS
    )
    assert report.verdict == "fail"
    accused = {check.id: (check.component, check.message) for check in report.failures}
    assert report.diagnosis[0]["component"] in fault.components, accused


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_the_same_model_without_a_fault_passes(settings):
    report = theodolite.audit(f"{SERVING}:Model", settings=settings, select=CHECKS)
    assert report.verdict == "pass", [check.message for check in report.failures]


def test_a_cache_that_is_kept_inside_passes():
    report = theodolite.audit(f"{SERVING}:Stateful", select=CHECKS)
    assert report.verdict == "pass", [check.message for check in report.failures]
