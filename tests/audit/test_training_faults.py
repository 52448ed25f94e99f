"""Faults of precision, gradients and backends are caught, and the part is named."""

from pathlib import Path

import pytest
from hosts import written
from training_faults import COMPILED, FAULTS, library_source

import theodolite

CHECKS = ("precision", "gradient", "backend")
COMPILER = ("backend.compiled", "backend.exported")
TRAINING = f"{Path(__file__).parent / 'models' / 'training.py'}:Model"
FIRST = [pytest.param(fault, next(iter(fault.hosts)), id=fault.id) for fault in FAULTS]
REST = [
    pytest.param(fault, host, id=f"{fault.id} in {host}")
    for fault in FAULTS
    for host in list(fault.hosts)[1:]
]


def messages(report):
    return [f"{check.id} {check.component}: {check.message}" for check in report.failures]


def audit_faulty(fault, host, folder):
    """Audit the fault in a host: the checks that know of it fail, and name its component."""
    if host in {"llama", "gpt2"}:
        pytest.importorskip("transformers")
    report = theodolite.audit(
        fault.write(folder, host), settings=fault.settings, select=fault.checks
    )
    assert report.verdict == "fail"
    accused = {check.component for check in report.failures if check.id in fault.checks}
    assert accused == {fault.component}, messages(report)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("fault", "host"), FIRST)
def test_a_fault_is_caught_and_its_component_named(fault, host, tmp_path):
    audit_faulty(fault, host, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("fault", "host"), REST)
def test_the_same_fault_is_caught_in_another_model(fault, host, tmp_path):
    audit_faulty(fault, host, tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", [{}, {"config.dropout": 0.1}])
def test_the_same_model_without_a_fault_passes(settings):
    report = theodolite.audit(TRAINING, settings=settings, select=CHECKS)
    assert report.verdict == "pass", messages(report)
    found = {check.id for check in report.checks if check.outcome == "passed"}
    assert {"precision.late", "gradient.slope", "gradient.checkpointing"} <= found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_library_without_a_fault_passes(family, attention, tmp_path):
    pytest.importorskip("transformers")
    spec = written(library_source(family, attention=attention), tmp_path, "small")
    report = theodolite.audit(spec, select=CHECKS)
    assert report.verdict == "pass", messages(report)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", COMPILED, ids=lambda fault: fault.id)
def test_what_only_a_compiler_sees_is_caught(fault, tmp_path):
    spec = fault.write(tmp_path, "training")
    found = {check.id for check in theodolite.audit(spec, select=COMPILER, time_limit=600).failures}
    assert found == set(fault.checks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("spec", [TRAINING, "reference", "hf:llama", "hf:gpt2"])
def test_compiled_and_exported_models_pass(spec):
    if spec.startswith("hf:"):
        pytest.importorskip("transformers")
    report = theodolite.audit(spec, select=COMPILER, time_limit=600)
    assert {check.outcome for check in report.checks} == {"passed"}, report.to_dict()


def test_a_standard_audit_neither_compiles_nor_exports():
    report = theodolite.audit(TRAINING, select="backend")
    assert {check.id for check in report.checks} == {"backend.agree", "backend.modes"}
