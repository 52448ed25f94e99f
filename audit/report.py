"""What an audit found: one `Check` for each check id, and the verdict over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import theodolite
from theodolite.causes import Cause, causes_of, is_hazard, symptoms_of
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.judging.check import Check
from theodolite.verdict import incompleteness, is_judged, what_was_judged

if TYPE_CHECKING:
    from theodolite.plots import Plot

__all__ = ["AuditFailure", "Cause", "Check", "Report", "is_hazard"]

SCHEMA = "theodolite-report/2"


class AuditFailure(AssertionError):
    """Raised by `Report.raise_for_failures`; its text is the failures, one a paragraph."""


@dataclass(frozen=True, repr=False)
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
        strict: Whether hazards fail the subject as faults do.
        command: The command, or the call from Python, that audits it again; "" if unknown.
        cut_short: Why the audit ended before all that was planned, as a sentence; None if it
            did not.
        told: The root causes, where they were worked out beside the subject; None where the checks
            alone must tell.
        pictures: Numbers to draw, by the name of their picture (see `theodolite.pictures`); empty
            where they were not taken.
        advice: What is unusual and may be meant: {"says", "where"} each.
    """

    subject: str
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    passes: float = 0.0
    seconds: float = 0.0
    error: str | None = None
    anatomy: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    command: str = ""
    cut_short: str | None = None
    told: tuple[Cause, ...] | None = None
    pictures: Mapping[str, Any] = field(default_factory=dict)
    advice: tuple[Mapping[str, Any], ...] = ()

    def __repr__(self) -> str:
        from theodolite.explanation import headline

        return f"<Report {self.verdict.upper()} {self.subject}: {headline(self)}>"

    @property
    def verdict(self) -> str:
        """One of "pass", "fail", "incomplete" or "error".

        "incomplete": nothing failed, and too little could be judged (see `theodolite.verdict`).
        "error": the subject could not be loaded, or nothing at all could be judged.
        """
        if any(check.outcome == "failed" for check in self.failures):
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
        count = Counter(check.outcome for check in self.checks if not is_hazard(check))
        hazards = sum(map(is_hazard, self.checks))
        return {
            "planned": len(self.checks),
            "passed": count["passed"],
            "failed": count["failed"] + (hazards if self.strict else 0),
            "hazards": hazards,
            "expected_failures": count["expected_failure"],
            "not_applicable": count["not_applicable"],
            "errors": count["error"],
        }

    @property
    def failures(self) -> list[Check]:
        """The checks that failed, or could not be carried out; hazards last, and if strict."""
        bad = [c for c in self.checks if c.outcome in ("failed", "error") and not is_hazard(c)]
        return bad + (self.hazards if self.strict else [])

    @property
    def hazards(self) -> list[Check]:
        """The checks that failed for a use that nobody has declared."""
        return [check for check in self.checks if is_hazard(check)]

    @cached_property
    def judged(self) -> dict[str, bool | str]:
        """What of the subject was judged: True, or "not offered", "not judged", "not asked"."""
        return what_was_judged(self.checks)

    @property
    def symptoms(self) -> dict[str, str]:
        """What each check that ran says (see `theodolite.diagnosis.symptom_of`)."""
        return symptoms_of(self.checks, strict=self.strict)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The root causes of what failed, the likeliest first (see `theodolite.causes`)."""
        return causes_of(self.checks, strict=self.strict) if self.told is None else self.told

    @property
    def diagnosis(self) -> list[dict[str, Any]]:
        """The root causes as plain values, as they stand in the JSON document."""
        return [cause.to_dict() for cause in self.causes]

    def plot(self, name: str) -> Plot:
        """One of the report's pictures, which a notebook shows: see `theodolite.plots.PLOTS`.

        Raises:
            UsageError: If no picture is called so, or its numbers were not taken.
        """
        from theodolite.plots import PLOTS, plot_of

        if name not in PLOTS:
            raise UsageError(f"no picture is called {name!r}; there are {', '.join(PLOTS)}")
        plot = plot_of(self, name)
        if plot is None:
            raise UsageError(
                f"there is no picture {name!r} of this subject, or its numbers were not taken: "
                "audit with pictures=True"
            )
        return plot

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON (schema "theodolite-report/2")."""
        document = {
            "schema": SCHEMA,
            "version": theodolite.__version__,
            "subject": self.subject,
            "command": self.command,
            "verdict": self.verdict,
            "summary": self.summary,
            "judged": self.judged,
            "advice": [dict(each) for each in self.advice],
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
        from theodolite.notebook import view

        return view(self)
