"""Faults of experts, groups, precision, backward and state, each written as a script."""

from pathlib import Path

import expert_faults
import faults
import group_faults
import library_faults
import pytest
import serving_faults
import state_faults
import training_faults
from hosts import changed, huggingface_source, written
from showing import shows_and_mends

MODELS = Path(faults.__file__).parent / "models"
SPARSE = (MODELS / "sparse.py").read_text(encoding="utf-8")
SPARSE_CHECKS = ("experts", "groups", "feed_forward", "batch", "declared.feed_forward")
MANY_LINES = {"flex without its scale"}
"""Faults of a way to attend that a script cannot turn to in a few lines."""

PROVING = {
    "E03-another-k", "E03-not-divided", "shares-in-another-order", "loop-one-short",
    "one-query-head-twice", "one-key-head-for-all", "R01", "large bias on all scores",
    "checkpoint draws dropout anew", "norm's weight summed over one axis", "left-unfilled", "M13",
    "backend.agree",
}  # fmt: skip
"""The part for every run: between them they are shown by most of the scripts' ways."""

BY_HAND = {
    "positions-all-zero": (
        "serving",
        "positions.lookup",
        "        x = self.wte(idx)\n",
        "        x, positions = self.wte(idx), 0 * positions\n",
    ),
    "no-epsilon": ("by_hand", "norm.epsilon", " + self.eps)", ")"),
    "gate-added": (
        "by_hand",
        "feed_forward.branches",
        "F.silu(self.gate(x)) * self.up(x)",
        "F.silu(self.gate(x)) + self.up(x)",
    ),
    "heads-averaged": (
        "by_hand",
        "heads.joined",
        "        y = y.transpose(1, 2)",
        "        y = y.mean(1, keepdim=True).expand_as(y).transpose(1, 2)",
    ),
}
"""Model, the check that fails, and what is changed."""


def cases(known):
    return [
        pytest.param(f, id=f.id, marks=[] if f.id in PROVING else [pytest.mark.slow]) for f in known
    ]


@pytest.mark.parametrize("fault", BY_HAND)
def test_faults_of_one_line(fault, reproduce, tmp_path):
    model, check, right, wrong = BY_HAND[fault]
    source = (MODELS / f"{model}.py").read_text(encoding="utf-8")
    spec = written(changed(source, [(right, wrong)], fault), tmp_path, "Model")
    settings = {"config.scheme": "learned"} if model == "serving" else {}
    found = reproduce(spec, select=(check,), settings=settings)
    assert list(found.scripts) == [check]
    shows_and_mends(found, file_of(spec), source)


@pytest.mark.parametrize("fault", cases([*expert_faults.BY_HAND, *group_faults.BY_HAND]))
def test_faults_of_experts_and_groups(fault, reproduce, tmp_path):
    spec = written(fault.applied_to(SPARSE), tmp_path, "Model")
    found = reproduce(spec, select=SPARSE_CHECKS, settings=fault.settings, declare=fault.declare)
    shows_and_mends(found, file_of(spec), SPARSE if fault.changes else None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", cases(training_faults.FAULTS))
def test_faults_of_precision_and_backward(fault, reproduce, tmp_path):
    host = next(iter(fault.hosts))
    if host in training_faults.NAMES:
        pytest.importorskip("transformers")
    spec = fault.write(tmp_path, host)
    found = reproduce(spec, select=fault.checks, settings=fault.settings)
    if fault.id not in MANY_LINES:
        shows_and_mends(found, file_of(spec), fault.source(host))


@pytest.mark.parametrize("fault", cases(state_faults.STATE))
def test_faults_of_state(fault, reproduce, tmp_path):
    spec = fault.write(tmp_path)
    found = reproduce(spec, select=("state",), settings=fault.settings, declare=fault.declare)
    mended = serving_faults.SOURCE if fault.changes else None
    shows_and_mends(found, file_of(spec), mended)


def test_a_buffer_that_no_file_of_a_library_holds(reproduce, tmp_path):
    pytest.importorskip("transformers")
    fault = next(each for each in library_faults.LLAMA if each.id == "left-unfilled")
    source = huggingface_source("llama")
    spec = written(fault.applied_to(source), tmp_path, "small")
    found = reproduce(spec, select=("state.files",))
    assert list(found.scripts) == ["state.files"]
    shows_and_mends(found, file_of(spec), source)


def file_of(spec):
    return Path(spec.rpartition(":")[0])
