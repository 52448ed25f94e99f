"""Faults of windows, experts and groups are caught, and most checks accuse the right part."""

from collections import Counter
from pathlib import Path

import expert_faults
import group_faults
import pytest
import window_faults
from hosts import huggingface_config, huggingface_source, written

import theodolite
from theodolite.fixtures.loading.huggingface.claims import declarations_of

FILE = Path(__file__).parent / "models" / "sparse.py"
SOURCE = FILE.read_text(encoding="utf-8")
CHECKS = {
    window_faults: ("window", "cache", "declared.window", "logits"),
    expert_faults: ("experts", "feed_forward", "declared.feed_forward", "batch"),
    group_faults: ("groups", "heads"),
}
HOSTS = {
    "mistral": ({"sliding_window": 8}, window_faults, window_faults.MISTRAL),
    "mixtral": (
        {"num_local_experts": 4, "num_experts_per_tok": 2},
        expert_faults,
        expert_faults.MIXTRAL,
    ),
    "llama": ({}, group_faults, group_faults.LLAMA),
}
DESIGNS = [
    ({}, {"window": 7, "active_experts": 2, "normalised_shares": True, "groups": "neighbours"}),
    ({"config.stacked": True, "config.shared": 40}, {"shared_width": 40, "experts": 4}),
    ({"config.every": 2, "config.fused": True}, {"window": [7, None]}),
    ({"config.window": 0, "config.chunk": 5}, {"chunk": 5, "window": None}),
    ({"config.top_k": 3, "config.n_expert": 5}, {"active_experts": 3}),
]

PROVING = {
    "W02-one-backend", "cache-one-short", "E02", "E03-another-k", "E03-not-divided", "detached",
    "loop-one-short", "shares-in-another-order", "shared-network-left-out", "one-query-head-twice",
    "G01", "mistral-padding-for-window", "mixtral-E02", "llama-key-heads-turned-round",
}  # fmt: skip
"""Between them they fail every check that any of these faults fails: the part for every run."""


def case(*values, name):
    slow = [] if name in PROVING else [pytest.mark.slow]
    return pytest.param(*values, id=name, marks=slow)


BY_HAND = [case(module, fault, name=fault.id) for module in CHECKS for fault in module.BY_HAND]
IN_FAMILIES = [
    case(family, fault, name=f"{family}-{fault.id}")
    for family, (_, _, faults) in HOSTS.items()
    for fault in faults
]


def judge(fault, spec, checks, **options):
    """Audit a faulty model; most failures accuse its component, and one names the cause."""
    report = theodolite.audit(spec, select=checks, **options)
    accused = Counter(check.component for check in report.failures)
    said = [f"{c.id} ({c.component}, {c.cause}): {c.message}" for c in report.failures]
    assert report.verdict == "fail", fault.id
    assert accused[fault.component] == max(accused.values()), said
    assert fault.cause in {None, *(check.cause for check in report.failures)}, said


def test_the_proving_faults_are_among_the_faults():
    assert {each.id for each in [*BY_HAND, *IN_FAMILIES]} >= PROVING


@pytest.mark.parametrize(("module", "fault"), BY_HAND)
def test_a_fault_of_a_hand_written_model_is_caught_and_named(module, fault, tmp_path):
    spec = written(fault.applied_to(SOURCE), tmp_path, "Model")
    judge(fault, spec, CHECKS[module], settings=fault.settings, declare=fault.declare)


@pytest.mark.parametrize(("settings", "declare"), DESIGNS, ids=str)
def test_the_same_model_without_a_fault_passes(settings, declare):
    every = [name for checks in CHECKS.values() for name in checks]
    report = theodolite.audit(f"{FILE}:Model", select=every, settings=settings, declare=declare)
    assert report.verdict == "pass", [f"{c.id}: {c.message}" for c in report.failures]


@pytest.mark.parametrize(("family", "fault"), IN_FAMILIES)
def test_the_same_fault_of_a_hugging_face_family_is_caught_and_named(family, fault, tmp_path):
    pytest.importorskip("transformers")
    fields, module, _ = HOSTS[family]
    source = fault.applied_to(huggingface_source(family, **fields, **fault.settings))
    declare, _ = declarations_of(huggingface_config(family, **fields))
    judge(fault, written(source, tmp_path, "small"), CHECKS[module], declare=declare)


@pytest.mark.parametrize("family", HOSTS)
def test_a_hugging_face_family_without_a_fault_passes(family, tmp_path):
    pytest.importorskip("transformers")
    fields, module, _ = HOSTS[family]
    declare, _ = declarations_of(huggingface_config(family, **fields))
    spec = written(huggingface_source(family, **fields), tmp_path, "small")
    report = theodolite.audit(spec, select=CHECKS[module], declare=declare)
    assert report.verdict == "pass", [f"{c.id}: {c.message}" for c in report.failures]


def test_a_window_that_the_library_forgets_in_one_backend(monkeypatch):
    modeling = pytest.importorskip("transformers.models.mistral.modeling_mistral")
    windowed = modeling.create_sliding_window_causal_mask

    def forgetful(*args, **kwargs):
        fused = kwargs["config"]._attn_implementation == "sdpa"
        return (modeling.create_causal_mask if fused else windowed)(*args, **kwargs)

    monkeypatch.setattr(modeling, "create_sliding_window_causal_mask", forgetful)
    settings = {"attn_implementation": "eager"}
    report = theodolite.audit("hf:mistral", select="window", settings=settings)
    (check,) = report.failures
    assert (check.id, check.component, check.cause) == ("window.field", "window", "window-ignored")
    assert check.where["view"] == "other backend"


def test_a_configured_sharing_that_the_library_does_not_read():
    pytest.importorskip("transformers")
    settings = {"norm_topk_prob": True}
    report = theodolite.audit("hf:deepseek_v2", select="experts", settings=settings)
    assert [check.id for check in report.failures] == ["experts.normalised"]
    assert "norm_topk_prob = True" in report.failures[0].message
