"""Proof by repair: what is said to be wrong is mended in a copy, and what failed is judged again.

A cause is proved where, with its remedy in place, all that failed passes and nothing that passed
fails. Of several causes with one remedy it is the one that the subject's numbers show, and among
those the likeliest. The subject itself stays as it is, and so does the file that it is from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from theodolite.causes import Cause, symptoms_of
from theodolite.diagnosis import PASSED, Fault
from theodolite.fixtures.errors import NoMoreCalls
from theodolite.fixtures.judging.check import Check
from theodolite.fixtures.repairs.evidence import shown
from theodolite.fixtures.repairs.registry import Repair, load_repairs
from theodolite.fixtures.repairs.repaired import repaired
from theodolite.fixtures.subject.subject import Subject

TRIES = 5
"""Remedies that are tried at most."""

COST = 3.0
"""No further remedy is tried once all of them together cost so many times the audit."""

_SLOW = frozenset({
    "causality", "padding", "cache", "generation", "gradient", "training", "backend", "length",
    "precision", "state", "packing",
})  # fmt: skip
"""Groups whose checks run a model many times: others are asked first."""

_OUT_OF_REACH = frozenset({"gradient.checkpointing", "backend.compiled", "backend.exported"})
"""Checks of what runs behind a forward's back, where nothing is held that mends it."""


@dataclass(frozen=True)
class Proof:
    """What was mended, and what it proves.

    Attributes:
        repair: What was changed.
        fault: The known fault that it is the remedy of; None where the numbers show none of those.
        mended: The checks that failed and pass with it.
    """

    repair: Repair
    fault: Fault | None
    mended: tuple[str, ...]

    @property
    def component(self) -> str:
        """The part at fault."""
        return self.repair.component if self.fault is None else self.fault.component

    @property
    def says(self) -> str:
        """What was changed and what came of it, in a sentence."""
        count = len(self.mended)
        passes = "the failing check passes" if count == 1 else f"all {count} failing checks pass"
        return f"{self.repair.says}, {passes}."


def settled(
    subject: Subject, checks: Sequence[Check], causes: Sequence[Cause], *, budget: str, strict: bool
) -> tuple[Cause, ...]:
    """The causes of an audit's failures, held against the subject's numbers and proved by repair.

    One that is proved stands alone. One whose numbers say otherwise gives way to one that they
    show, and where they show none to what its checks measured.

    Args:
        subject: What was audited; only copies of it are changed.
        checks: The checks of its audit.
        causes: What the failures look like.
        budget: That of the audit.
        strict: Whether hazards count as faults.
    """
    if not causes:
        return ()
    from theodolite.knowledge import known_faults

    symptoms = symptoms_of(checks, strict=strict)
    ranking = known_faults().ranking(symptoms)
    proof = prove(subject, symptoms, ranking, budget=budget)
    if proof is None:
        return tuple(_as_shown(subject, cause, ranking) for cause in causes)
    first, fault = causes[0], proof.fault
    same = first.component == proof.component
    told = replace(
        first,
        component=proof.component,
        cause=fault.name if fault else (first.cause if same else proof.repair.name),
        says=fault.sentence if fault else (first.says if same else proof.repair.says),
        probability=next((p for known, p in ranking if known == fault), first.probability),
        explains=tuple(c.id for c in checks if c.id in proof.mended),
        evidence=first.evidence,
        proof="repaired",
        repair=proof.says,
    )
    return (told,)


def _as_shown(subject: Subject, cause: Cause, ranking: Sequence[tuple[Fault, float]]) -> Cause:
    """The cause, or the one in its place that the numbers show."""
    refused = cause.cause is not None and shown(subject, cause.cause) is False
    for fault, _ in ranking:
        near = fault.component == cause.component or refused
        if near and fault.name != cause.cause and shown(subject, fault.name):
            return replace(cause, component=fault.component, cause=fault.name, says=fault.sentence)
    if not refused:
        return cause
    return replace(cause, cause=None, says=next(iter(cause.evidence), cause.says))


def prove(
    subject: Subject,
    symptoms: Mapping[str, str],
    ranking: Sequence[tuple[Fault, float]],
    *,
    budget: str,
) -> Proof | None:
    """The first remedy with which all that failed passes, and nothing that passed fails.

    Args:
        subject: What was audited; only copies of it are changed.
        symptoms: For every check that ran, what it said (see `theodolite.diagnosis.symptom_of`).
        ranking: The known faults, the likeliest first.
        budget: That of the audit.
    """
    failed = [check for check, said in symptoms.items() if said]
    passed = [check for check, said in symptoms.items() if said == PASSED]
    left = COST * max(subject.passes, 1.0)
    tried = 0
    for repair, fault in _candidates(subject, ranking):
        if tried >= TRIES or left <= 0:
            return None
        try:
            change = repair.prepare(subject)
            if change is None:
                continue
            tried += 1
            mended = repaired(subject, change)
            holds = _holds(mended, failed, passed, repair.component, budget)
        except (Exception, NoMoreCalls):  # a remedy that the subject does not bear is none
            continue
        left -= mended.passes
        if holds:
            return Proof(repair, fault, tuple(failed))
    return None


def _candidates(
    subject: Subject, ranking: Sequence[tuple[Fault, float]]
) -> Iterator[tuple[Repair, Fault | None]]:
    """Remedies, each once, with the fault that it would prove: what the numbers show first."""
    by_cause: dict[str, list[Repair]] = {}
    for repair in load_repairs():
        for cause in repair.causes:
            by_cause.setdefault(cause, []).append(repair)
    faults = [fault for fault, _ in ranking if fault.name in by_cause]
    shows = {fault.name: shown(subject, fault.name) for fault in faults}
    likely = [fault for fault in faults if shows[fault.name]]
    likely += [fault for fault in faults if shows[fault.name] is None]
    given: set[str] = set()
    first = ranking[0][0].component if ranking else ""
    for fault in likely:
        for repair in by_cause[fault.name]:
            if repair.name not in given:
                given.add(repair.name)
                yield repair, fault
    for fault in faults:
        for repair in by_cause[fault.name]:
            if repair.general and repair.component == first and repair.name not in given:
                given.add(repair.name)
                yield repair, None


def _holds(
    mended: Subject, failed: Sequence[str], passed: Sequence[str], component: str, budget: str
) -> bool:
    """Whether what failed passes, the quickest check first, and what passed nearby still does."""
    quickest = sorted(failed, key=lambda check: (_group(check) in _SLOW, failed.index(check)))[:1]
    rest = [check for check in failed if check not in quickest]
    if not all(outcome == "passed" for outcome in _outcomes(mended, quickest, budget)):
        return False
    if not all(outcome == "passed" for outcome in _outcomes(mended, rest, budget)):
        return False
    groups = {component, "logits", "inside", *map(_group, failed)}
    near = [c for c in passed if _group(c) in groups and c not in _OUT_OF_REACH]
    return all(
        outcome in ("passed", "not_applicable") for outcome in _outcomes(mended, near, budget)
    )


def _outcomes(mended: Subject, checks: Sequence[str], budget: str) -> list[str]:
    from theodolite.collector import Choice
    from theodolite.command_line import Audit
    from theodolite.findings import Findings
    from theodolite.run import run_properties  # which asks for proofs
    from theodolite.selection import selection

    if not checks:
        return []
    findings = Findings(Audit(None, {}, {}))
    choice = Choice(selection(checks, budget=budget), budget, fail_fast=True)
    run_properties(mended, choice, findings.take)
    return [check.outcome for check in findings.checks({})]


def _group(check: str) -> str:
    return check.partition(".")[0]
