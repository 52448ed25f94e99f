"""A cause is told where the numbers show it, and proved where its remedy makes what failed pass."""

import json
import random
from contextlib import contextmanager
from importlib.resources import files

import pytest
import torch

import theodolite
from theodolite import knowledge
from theodolite.fixtures.repairs.evidence import known_causes, shown
from theodolite.fixtures.repairs.registry import load_repairs
from theodolite.fixtures.repairs.repaired import repaired
from theodolite.proof import prove
from theodolite.properties.mutants import load_hosts, load_mutants

DOCUMENT = json.loads(files("theodolite").joinpath(knowledge.FILE).read_text(encoding="utf-8"))
TRIALS = {(trial.fault, trial.host): trial for trial in knowledge.trials_of(DOCUMENT)}
MUTANTS = {mutant.name: mutant for mutant in load_mutants()}
HOSTS = {host.name: host for host in load_hosts()}

CAUSES = {cause for repair in load_repairs() for cause in repair.causes}
REPAIRABLE = sorted(pair for pair in TRIALS if pair[0] in CAUSES and pair[1] in HOSTS)

ALIKE = {
    frozenset({"rope-base-fixed-at-a-hundred", "rope-exponent-i-over-d"}),
}
"""Faults that are one function: 10,000^(-i/d) is 100^(-2i/d)."""

KNOWN = sorted(pair for pair in TRIALS if pair[0] in known_causes() and pair[1] in HOSTS)
SAMPLE = random.Random(0).sample(KNOWN, 12)

PROVED = [
    ("no-scale", "nano"),
    ("scores-times-root-d", "grouped"),
    ("softmax-over-heads", "llama"),
    ("rotation-of-keys-reversed", "reference"),
    ("epsilon-outside-the-root", "llama"),
    ("gain-never-applied", "gpt2"),
    ("second-norm-never-called", "nano"),
    ("no-residual-around-attention", "gpt2"),
    ("swiglu-adds-its-branches", "grouped"),
    ("heads-averaged-not-joined", "gpt2"),
    ("loss-in-bits", "nano"),
    ("weights-dropped-in-evaluation", "grouped"),
    ("groups-tiled", "llama"),
]


@contextmanager
def faulty(fault, host):
    """The subject, while the fault is in it."""
    if host not in HOSTS:
        pytest.skip(f"{host} cannot be had here")
    mutant = MUTANTS[fault]
    with mutant.applied(HOSTS[host]):
        yield HOSTS[host].subject(mutant)


def shown_in(subject):
    return {cause for cause in known_causes() if shown(subject, cause)}


def require_evidence(fault, host):
    with faulty(fault, host) as subject:
        own, found = shown(subject, fault), shown_in(subject)
    assert own is not False
    strangers = found - {fault}
    assert all(frozenset({fault, stranger}) in ALIKE for stranger in strangers)


@pytest.mark.parametrize(("fault", "host"), SAMPLE)
def test_the_numbers_of_a_fault_show_it_and_no_other(fault, host):
    require_evidence(fault, host)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "host"), KNOWN)
def test_the_numbers_of_every_trial_show_its_fault_and_no_other(fault, host):
    require_evidence(fault, host)


@pytest.mark.parametrize("host", [name for name in HOSTS if name not in ("library", "training")])
def test_the_numbers_of_a_model_without_a_fault_show_none(host):
    assert shown_in(HOSTS[host].subject()) == set()


@pytest.mark.parametrize("host", ["nano", "mixture"])
def test_a_sight_that_is_not_so_is_refuted_and_a_window_refutes_none(host):
    with faulty("mask-shows-the-next", host) as subject:
        assert shown(subject, "mask-shows-the-next") is not False
        assert shown(subject, "mask-transposed") is False
        assert shown(subject, "mask-inverted") is False


def test_every_cause_of_a_repair_is_a_fault_that_is_known():
    assert set(MUTANTS) >= CAUSES
    assert len(CAUSES) >= 60


def test_what_is_shown_has_a_repair():
    assert set(known_causes()) <= CAUSES


def proof_of(fault, host):
    symptoms = TRIALS[fault, host].symptoms
    with faulty(fault, host) as subject:
        before = {name: value.clone() for name, value in subject.model.state_dict().items()}
        kind = type(subject.model)
        subject.passes = max(subject.passes, 100)  # an audit would have spent as many
        proof = prove(
            subject, symptoms, knowledge.known_faults().ranking(symptoms), budget="standard"
        )
        after = subject.model.state_dict()
    assert type(subject.model) is kind
    assert all(torch.equal(after[name], value) for name, value in before.items())
    return proof


@pytest.mark.parametrize(
    ("fault", "host"),
    [
        pytest.param(*pair, marks=[pytest.mark.slow] if place % 3 else [])
        for place, pair in enumerate(PROVED)
    ],
)
def test_a_fault_is_proved_by_its_remedy(fault, host):
    proof = proof_of(fault, host)
    assert proof is not None
    assert proof.fault is not None
    assert proof.fault.name == fault
    failed = {check for check, said in TRIALS[fault, host].symptoms.items() if said}
    assert set(proof.mended) == failed
    assert proof.says.startswith("With ")
    assert proof.says.endswith("failing check passes." if len(failed) == 1 else "checks pass.")


@pytest.mark.parametrize(
    ("fault", "host"), [("a-forward-remembers", "nano"), ("embedding-modified-in-place", "nano")]
)
def test_what_no_remedy_mends_is_not_proved(fault, host):
    assert proof_of(fault, host) is None


@pytest.mark.slow
def test_of_all_trials_99_in_a_hundred_proofs_are_right_and_90_are_found():
    tried = random.Random(0).sample(REPAIRABLE, 200)
    proofs = {pair: proof_of(*pair) for pair in tried}
    found = {pair: p for pair, p in proofs.items() if p is not None and p.fault is not None}
    assert len(found) >= 0.9 * len(tried)
    assert sum(p.fault.name == pair[0] for pair, p in found.items()) >= 0.99 * len(found)


def test_an_audit_tells_what_is_proved():
    mutant, host = MUTANTS["gain-never-applied"], HOSTS["nano"]
    with mutant.applied(host):
        subject = host.subject(mutant)
        told = theodolite.audit(subject, select="norm").diagnosis[0]
        untold = theodolite.audit(subject, select="norm", prove=False).diagnosis[0]
    assert (told["component"], told["cause"]) == ("norm", "gain-never-applied")
    assert told["proof"] == "repaired"
    assert told["repair"].startswith("With every norm computed as")
    assert (untold["proof"], untold["repair"]) == (None, None)


def test_what_is_built_or_copied_from_a_repaired_subject_is_repaired():
    """Checks copy a subject, build it anew, and run its modules alone."""
    remedy = next(each for each in load_repairs() if each.name == "LayerNorm's formula")
    with faulty("gain-never-applied", "nano") as subject:
        mended = repaired(subject, remedy.prepare(subject))
        ids = subject.random_ids(2)
        wrong, right = (each.run(each.copy(), ids) for each in (subject, mended))
    sound = HOSTS["nano"].subject()
    sound_logits = sound.run(sound.copy(), ids)
    torch.testing.assert_close(right, sound_logits)
    assert not torch.allclose(wrong, sound_logits)
