"""What an audit found: one `Check` for each check id, and the verdict over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import theodolite
from theodolite.diagnosis import symptom_of
from theodolite.fixtures.judging.bounds import nearness
from theodolite.verdict import incompleteness, is_judged

if TYPE_CHECKING:  # a report is read and shown without torch
    from theodolite.fixtures.judging.result import Result

SCHEMA = "theodolite-report/2"

_WORST_FIRST = ("failed", "error", "passed", "not_applicable")


@dataclass(frozen=True)
class Check:
    """The outcome of one check over all views of the subject.

    Attributes:
        id: Its stable name, e.g. "causality.perturb".
        claims: The ledger's claims that it judges.
        component: The part that is accused if it fails.
        level: "fault", or "hazard" for what goes wrong in a use that nobody has declared.
        outcome: "passed", "failed", "expected_failure", "not_applicable" or "error".
        message: Why it failed or does not apply; "" if it passed.
        measured: The value that came nearest to its bound, or went furthest past it.
        at_most: What that may be at most, or None.
        at_least: What that must be at least, or None.
        where: Where it was measured: view, module, row, position ...
        seconds: Time it took.
        cause: A short name of the likely fault, where the check can tell.
        reproduce: A command that runs this check alone.
        expected: What ought to hold where it failed, as a clause; "" if it passed.
        remedy: What to look at first; "" if it passed.
        view: The view of the subject in which that was measured, where there are several.
        script: A file that shows the failure without Theodolite, where one was written.
        no_script: Why there is none, where one was asked for.
    """

    id: str
    claims: tuple[str, ...]
    component: str
    outcome: str
    message: str = ""
    measured: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    cause: str | None = None
    reproduce: str = ""
    expected: str = ""
    remedy: str = ""
    view: str | None = None
    script: str = ""
    no_script: str = ""
    level: str = "fault"

    @classmethod
    def merge(cls, results: Sequence[Result], *, reproduce: str = "") -> Check:
        """One check out of its results in each view: the worst outcome counts."""
        worst = min(results, key=lambda r: _WORST_FIRST.index(r["outcome"]))
        nearest = worst
        if worst["outcome"] == "passed":
            passed = [r for r in results if r["outcome"] == "passed"]
            nearest = max(passed, key=_nearness)
        return cls(
            id=str(worst["check"]),
            claims=tuple(worst["claims"]),
            component=worst["component"],
            outcome=worst["outcome"],
            message=worst["message"],
            measured=nearest["measured"],
            at_most=nearest["at_most"],
            at_least=nearest["at_least"],
            where=nearest["where"],
            seconds=sum(r["seconds"] for r in results),
            cause=worst["cause"],
            reproduce=reproduce if worst["outcome"] in ("failed", "error") else "",
            expected=worst["says"],
            remedy=worst["remedy"],
            view=nearest["view"],
            level=worst["level"],
        )


def _nearness(result: Result) -> float:
    return nearness(result["measured"], result["at_most"], result["at_least"])


class AuditFailure(AssertionError):
    """Raised by `Report.raise_for_failures`; its text is the failures, one a paragraph."""


@dataclass(frozen=True)
class Report:
    """The verdict on a subject, with every check.

    Attributes:
        subject: What was audited.
        checks: One for each check that was planned, in the order of the properties.
        notes: What was chosen or found when loading and calling the subject.
        passes: Forward passes spent, in units of 256 tokens.
        seconds: Time spent after loading.
        error: Why the subject could not be loaded or called; None if it could.
        anatomy: What the subject is made of, as plain values; empty if that was not measured.

        command: The command, or the call from Python, that audits it again; "" if unknown.

        cut_short: Why the audit ended before all that was planned, as a sentence; None if it
            did not.

    """

    subject: str
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    passes: float = 0.0
    seconds: float = 0.0
    error: str | None = None
    anatomy: Mapping[str, Any] = field(default_factory=dict)

    command: str = ""

    cut_short: str | None = None

    @property
    def verdict(self) -> str:
        """One of "pass", "fail", "incomplete" or "error".

        "incomplete": nothing failed, and too little could be judged (see `theodolite.verdict`).
        "error": the subject could not be loaded, or nothing at all could be judged.
        """
        if "failed" in {check.outcome for check in self.checks}:
            return "fail"
        if self.error or not self.checks:
            return "error"
        if self.incomplete is None:
            return "pass"
        died = any(check.outcome == "error" for check in self.checks)
        return "error" if died and not any(map(is_judged, self.checks)) else "incomplete"

    @cached_property
    def incomplete(self) -> str | None:
        """Why too little was judged for a pass, as a sentence; None where enough was."""
        if self.cut_short is not None:
            return self.cut_short
        return incompleteness(self.checks) if self.checks else None

    @property
    def summary(self) -> dict[str, int]:
        """How many checks were planned, and how many ended how."""
        count = Counter(check.outcome for check in self.checks)
        return {
            "planned": len(self.checks),
            "passed": count["passed"],
            "failed": count["failed"],
            "expected_failures": count["expected_failure"],
            "not_applicable": count["not_applicable"],
            "errors": count["error"],
        }

    @property
    def failures(self) -> list[Check]:
        """The checks that failed, or could not be carried out."""
        return [check for check in self.checks if check.outcome in ("failed", "error")]

    @property
    def symptoms(self) -> dict[str, str]:
        """What each check that ran says (see `theodolite.diagnosis.symptom_of`)."""
        said = {c.id: symptom_of(c.outcome, c.component, c.cause) for c in self.checks}
        return {check: symptom for check, symptom in said.items() if symptom is not None}

    @cached_property
    def diagnosis(self) -> list[dict[str, Any]]:
        """Likely causes, likeliest first: {"component", "cause", "sentence", "score", "evidence"}.

        The score is the cause's probability among the known faults and unknown ones; `sentence`
        tells a known fault. See `theodolite.diagnosis`.
        """
        if not any(self.symptoms.values()):
            return []  # a report that passes need not know any fault
        from theodolite.knowledge import known_faults

        return [
            {**asdict(suspect), "score": round(suspect.score, 3), "evidence": [*suspect.evidence]}
            for suspect in known_faults().suspects(self.symptoms)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON (schema "theodolite-report/2")."""
        document = {
            "schema": SCHEMA,
            "version": theodolite.__version__,
            "subject": self.subject,
            "command": self.command,
            "verdict": self.verdict,
            "summary": self.summary,
            "anatomy": dict(self.anatomy),
            "notes": list(self.notes),
            "cost": {"passes": round(self.passes, 1), "seconds": round(self.seconds, 2)},
            "checks": [asdict(check) for check in self.checks],
            "diagnosis": self.diagnosis,
        }
        said = {"error": self.error, "incomplete": self.incomplete}
        return document | {name: text for name, text in said.items() if text is not None}

    def raise_for_failures(self) -> None:
        """Do nothing if the subject passed.

        Raises:
            AuditFailure: If a check failed, or the audit could not be carried out.
        """
        if self.verdict == "pass":
            return
        lines = [f"{check.id} ({check.component}): {check.message}" for check in self.failures]
        lines.extend(said for said in (self.error, self.incomplete) if said)
        raise AuditFailure(f"{self.subject}: {self.verdict}\n" + "\n".join(lines))

    def _repr_html_(self) -> str:
        from theodolite.terminal import to_html

        return to_html(self)
