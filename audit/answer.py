"""The answer of an audit: its root causes, each at a line, and the line of every failed check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from theodolite.causes import Cause, causes_of, telling
from theodolite.fixtures.anatomy.advice import advice_on, one_module_for_all
from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.errors import NoMoreCalls
from theodolite.fixtures.judging.check import Check
from theodolite.fixtures.lines.locate import Accused, locate
from theodolite.fixtures.subject.subject import Subject
from theodolite.proof import settled


@dataclass(frozen=True)
class Answer:
    """What is told of a subject's failures.

    Attributes:
        causes: Its root causes, the likeliest first.
        sources: Check id → the line that the check blames.
        advice: What is unusual and may be meant: {"says", "where"} each.
    """

    causes: tuple[Cause, ...] = ()
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    advice: tuple[Mapping[str, Any], ...] = ()


def answer(
    subject: Subject, checks: Sequence[Check], *, strict: bool, prove: str | None = None
) -> Answer:
    """Explain the failures among `checks`, the subject at hand.

    Args:
        subject: The subject that was audited.
        checks: The checks of its audit.
        strict: Whether hazards count as faults.
        prove: The budget of the audit, where causes are to be proved by repair; None: they are not.
    """
    causes = causes_of(checks, strict=strict)
    if prove is not None:
        causes = settled(subject, checks, causes, budget=prove, strict=strict)
    failed = {check.id: check for check in checks if check.outcome == "failed"}
    causes = tuple(
        _located(subject, cause, [failed[name] for name in cause.explains]) for cause in causes
    )
    sources = {name: line for name, check in failed.items() if (line := _source(subject, check))}
    return Answer(causes, sources, tuple(_advice(subject)))


def _advice(subject: Subject) -> list[dict[str, Any]]:
    """What is unusual about the subject; of its shape only where that was not chosen here."""
    try:
        found = [*one_module_for_all(subject.views.as_given)]
        if subject.loaded.rebuild is None:
            found += [(says, {}) for says in advice_on(anatomy_of(subject))]
    except (Exception, NoMoreCalls):  # what could not be measured has failed its own checks
        return []
    return [{"says": says, "where": where} for says, where in found]


def _located(subject: Subject, cause: Cause, checks: Sequence[Check]) -> Cause:
    """The cause at its line: that of a check that knows it, else the one of its component."""
    told = telling(checks, cause.component, cause.cause)
    for check in told:
        if check.source is not None and check.component == cause.component:
            return cause.at(check.source)
    own = [check for check in told if check.component == cause.component]
    where = own[0].where if own else {}
    causes = dict.fromkeys([*(check.cause for check in own), cause.cause])
    return cause.at(_line(subject, Accused(cause.component, tuple(causes), where)))


def _source(subject: Subject, check: Check) -> Mapping[str, Any] | None:
    if check.source is not None:
        return check.source
    return _line(subject, Accused(check.component, (check.cause,), check.where))


def _line(subject: Subject, accused: Accused) -> dict[str, Any] | None:
    try:
        line = locate(subject, accused)
    except (Exception, NoMoreCalls):  # to look for a line is no check: what it meets is not judged
        return None
    return None if line is None else line.to_dict()
