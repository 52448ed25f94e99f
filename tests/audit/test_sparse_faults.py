"""Faults of windows, experts and groups are caught, and most checks accuse the right part."""

from collections import Counter
from pathlib import Path

import expert_faults
import group_faults
import pytest
import window_faults
from hosts import huggingface_config, huggingface_source, written

import theodolite
from theodolite.fixtures.huggingface_declarations import declarations_of

CHECKS = (
    "window", "experts", "groups", "heads", "feed_forward", "declared", "cache", "batch", "logits",
)  # fmt: skip
FILE = Path(__file__).parent / "models" / "sparse.py"
SOURCE = FILE.read_text(encoding="utf-8")
BY_HAND = [*window_faults.BY_HAND, *expert_faults.BY_HAND, *group_faults.BY_HAND]
HOSTS = {
    "mistral": ({"sliding_window": 8}, window_faults.MISTRAL),
    "mixtral": ({"num_local_experts": 4, "num_experts_per_tok": 2}, expert_faults.MIXTRAL),
    "llama": ({}, group_faults.LLAMA),
}
DESIGNS = [
    ({}, {"window": 7, "active_experts": 2, "normalised_shares": True, "groups": "neighbours"}),
    ({"config.stacked": True, "config.shared": 40}, {"shared_width": 40, "experts": 4}),
    ({"config.every": 2, "config.fused": True}, {"window": [7, None]}),
    ({"config.window": 0, "config.chunk": 5}, {"chunk": 5, "window": None}),
    ({"config.top_k": 3, "config.n_expert": 5}, {"active_experts": 3}),
]


def judge(fault, spec, **options):
    """Audit a faulty model; most failures accuse its component, and one names the cause."""
    report = theodolite.audit(spec, select=CHECKS, **options)
    accused = Counter(check.component for check in report.failures)
    said = [f"{c.id} ({c.component}, {c.cause}): {c.message}" for c in report.failures]
    assert report.verdict == "fail", fault.id
    assert accused[fault.component] == max(accused.values()), said
    assert fault.cause in {None, *(check.cause for check in report.failures)}, said


@pytest.mark.parametrize("fault", BY_HAND, ids=lambda fault: fault.id)
def test_a_fault_of_a_hand_written_model_is_caught_and_named(fault, tmp_path):
    spec = written(fault.applied_to(SOURCE), tmp_path, "Model")
    judge(fault, spec, settings=fault.settings, declare=fault.declare)


@pytest.mark.parametrize(("settings", "declare"), DESIGNS, ids=str)
def test_the_same_model_without_a_fault_passes(settings, declare):
    report = theodolite.audit(f"{FILE}:Model", select=CHECKS, settings=settings, declare=declare)
    assert report.verdict == "pass", [f"{c.id}: {c.message}" for c in report.failures]


@pytest.mark.parametrize(
    ("family", "fault"),
    [pytest.param(f, each, id=f"{f}-{each.id}") for f in HOSTS for each in HOSTS[f][1]],
)
def test_the_same_fault_of_a_hugging_face_family_is_caught_and_named(family, fault, tmp_path):
    pytest.importorskip("transformers")
    fields, _ = HOSTS[family]
    source = fault.applied_to(huggingface_source(family, **fields, **fault.settings))
    declare, _ = declarations_of(huggingface_config(family, **fields))
    judge(fault, written(source, tmp_path, "small"), declare=declare)


@pytest.mark.parametrize("family", HOSTS)
def test_a_hugging_face_family_without_a_fault_passes(family, tmp_path):
    pytest.importorskip("transformers")
    fields, _ = HOSTS[family]
    declare, _ = declarations_of(huggingface_config(family, **fields))
    spec = written(huggingface_source(family, **fields), tmp_path, "small")
    report = theodolite.audit(spec, select=CHECKS, declare=declare)
    assert report.verdict == "pass", [f"{c.id}: {c.message}" for c in report.failures]
