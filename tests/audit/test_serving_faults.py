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

PROVING = {
    "softmax-twice", "M15", "padding-replaces-causality", "unfilled", "summed", "M19-half",
    "mode-kept", "one-too-few", "M19", "D04", "end-ignored", "M08", "T01", "draws-of-the-system",
    "padding-seen-by-steps",
}  # fmt: skip
"""Between them they fail every check that any of these faults fails: the part for every run."""

CASES = [
    pytest.param(fault, id=fault.id, marks=[] if fault.id in PROVING else [pytest.mark.slow])
    for fault in FAULTS
]


def test_the_proving_faults_are_among_the_faults():
    assert {fault.id for fault in FAULTS} >= PROVING


@pytest.mark.parametrize("fault", CASES)
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


def test_a_loss_of_logits_that_are_almost_alike_is_no_other_loss(tmp_path):
    """Losses then differ by hardly more than rounding."""
    source = SERVING.read_text(encoding="utf-8")
    made = "        self.apply(self._init)\n"
    assert source.count(made) == 1
    faint = (
        made + "        self.ln_f.weight = nn.Parameter(torch.arange(config.n_embd) // 47 * 1e-3)\n"
    )
    file = tmp_path / "faint.py"
    file.write_text(source.replace(made, faint), encoding="utf-8")
    report = theodolite.audit(f"{file}:Model", select="loss")
    outcomes = {check.id: check.outcome for check in report.checks}
    assert outcomes["loss.count"] == outcomes["loss.accumulation"] == "passed", outcomes
    assert report.verdict == "pass", [check.message for check in report.failures]
