"""Publicly reported faults in a hand-written model are caught, and the right part is accused."""

from pathlib import Path

import pytest
from faults import FAULTS

import theodolite

BY_HAND = f"{Path(__file__).parent / 'models' / 'by_hand.py'}:Model"
VARIANTS = [{}, {"config.flash": True}, {"config.n_expert": 4}]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_reported_fault_is_caught_and_its_component_named(fault, tmp_path):
    report = theodolite.audit(fault.write(tmp_path), settings=fault.settings)
    assert report.verdict == "fail"
    accused = {check.component: check.message for check in report.failures}
    assert report.diagnosis[0]["component"] == fault.component, accused


@pytest.mark.parametrize("settings", VARIANTS, ids=["explicit", "fused", "experts"])
def test_the_same_model_without_a_fault_passes(settings):
    report = theodolite.audit(BY_HAND, settings=settings)
    assert report.verdict == "pass", [check.message for check in report.failures]
