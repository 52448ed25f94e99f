"""An audit's answer in words, wherever it is shown: causes, hazards, advice, what was judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from theodolite.causes import Cause, is_hazard, telling
from theodolite.fixtures.judging.bounds import allowed
from theodolite.fixtures.judging.check import Check
from theodolite.properties.catalogue import cause_of
from theodolite.properties.ledger import Claim, load_ledger
from theodolite.report import Report

PROVED = "proved by repair"


@dataclass(frozen=True)
class Block:
    """One cause, to be read from above.

    Attributes:
        title: The component and what is wrong with it.
        proof: How it is proved; "" where it is not.
        place: "FILE:LINE  in FUNCTION"; "" where no line can be told.
        code: "LINE │ TEXT"; "" likewise.
        sentences: What was measured where, and what to do.
        named: A name with a text each: why it matters, what shows it.
    """

    title: str
    proof: str
    place: str
    code: str
    sentences: tuple[str, ...]
    named: tuple[tuple[str, str], ...]


def block(cause: Cause, report: Report) -> Block:
    """A cause of `report` in words."""
    checks = [check for check in report.checks if check.id in cause.explains]
    told = telling(checks, cause.component, cause.cause)
    says = _says(cause)
    seen = [each for each in cause.evidence[:1] if each != says]
    if cause.proof is not None and cause.repair:
        seen.append(cause.repair)
    source = cause.source
    named = [("Why it matters", why(told[0])), *_shown_by(told)] if told else []
    return Block(
        title=f"{cause.component}: {says}",
        proof=PROVED if cause.proof is not None else "",
        place=place_of(source),
        code=f"{source['line']} │ {source['code']}" if source and source["code"] else "",
        sentences=tuple(seen),
        named=tuple((name, text) for name, text in named if text),
    )


def headline(report: Report) -> str:
    """What the audit came to, behind the verdict and the subject."""
    if report.verdict != "fail":
        done = f"{report.summary['passed']} of {report.summary['planned']} checks passed"
        parts = [done, *_counts(report)]
    else:
        failed = report.summary["failed"]
        seen = f"seen by {_number(failed, 'check')}"
        parts = [f"{_number(len(report.causes) or failed, 'fault')} ({seen})", *_counts(report)]
    return ", ".join(parts)


def hazard(check: Check) -> str:
    """A hazard in one line: what goes wrong, and at which line of the subject's code."""
    known = cause_of(check.cause) if check.cause else None
    says = known.says if known is not None else check.message
    at = place_of(check.source, function=False)
    return f"{check.component}: {says}" + (f"  {at}" if at else "")


def judged(report: Report) -> str:
    """What was judged and what is not offered, in two sentences."""
    said = report.judged
    done = [name for name, state in said.items() if state is True]
    absent = [name for name, state in said.items() if state == "not offered"]
    parts = [f"judged: {', '.join(done) or 'nothing'}."]
    prevented = [name for name, state in said.items() if state == "not judged"]
    parts += [f"Not judged: {', '.join(prevented)}."] if prevented else []
    parts += [f"Not offered: {', '.join(absent)}."] if absent else []
    return "  ".join(parts)


def unjudged(report: Report) -> dict[str, list[str]]:
    """Why checks do not apply: reason → the checks; equal reasons once."""
    reasons: dict[str, list[str]] = {}
    for check in report.checks:
        if check.outcome == "not_applicable":
            reasons.setdefault(check.message, []).append(check.id)
    return reasons


def why(check: Check) -> str:
    """The first claim that a check judges, and why it must hold; "" where it names none."""
    claim = next((_ledger()[name] for name in check.claims if name in _ledger()), None)
    return f"{claim.id}: {claim.why}" if claim is not None else ""


def place_of(source: Mapping[str, Any] | None, *, function: bool = True) -> str:
    """A line of code as "FILE:LINE  in FUNCTION"; "" for none."""
    if source is None:
        return ""
    inside = f"  in {source['function']}" if function and source["function"] else ""
    return f"{source['file']}:{source['line']}{inside}"


def measured(check: Check) -> str:
    """What a check measured and what that may be; "" where it measured nothing."""
    if check.measured is None:
        return ""
    bound = allowed(check.at_most, check.at_least)
    return f"{check.measured:.3g}{bound and f', {bound}'}"


def as_text(check: Check, report: Report) -> str:
    """A failed check as plain lines, for a file."""
    claim = next((_ledger()[name] for name in check.claims if name in _ledger()), None)
    causes = [_says(cause) for cause in report.causes if check.id in cause.explains]
    lines = [
        ("claim", f"{claim.id}: {claim.statement}" if claim else ""),
        ("expected", check.expected or check.message),
        ("measured", measured(check) if check.outcome == "failed" else ""),
        ("where", ", ".join(f"{key} {value}" for key, value in check.where.items())),
        ("line", place_of(check.source)),
        ("why", claim.why if claim else ""),
        ("look at", check.remedy),
        ("cause", causes[0] if causes else ""),
        ("again", check.reproduce),
        ("script", check.script or (f"none: {check.no_script}" if check.no_script else "")),
    ]
    return "\n".join(f"{name}: {text}" for name, text in lines if text)


def _says(cause: Cause) -> str:
    """The cause in a sentence: its own, that of the catalogue, or what was measured."""
    if cause.says not in cause.evidence:
        return cause.says
    known = cause_of(cause.cause) if cause.cause else None
    return known.says if known is not None else cause.says


def _shown_by(told: list[Check]) -> list[tuple[str, str]]:
    """What shows a cause without the audit, or else by one check alone."""
    script = next((check.script for check in told if check.script), "")
    again = next((check.reproduce for check in told if check.reproduce), "")
    if script:
        return [("Script", script)]
    why = next((check.no_script for check in told if check.no_script), "")
    return [("Script", f"none: {why}" if why else ""), ("Again", again)]


def _counts(report: Report) -> list[str]:
    summary, found = report.summary, []
    if summary["hazards"]:
        found.append(_number(summary["hazards"], "hazard"))
    if report.advice:
        pieces = len(report.advice)
        found.append("1 piece of advice" if pieces == 1 else f"{pieces} pieces of advice")
    if summary["expected_failures"]:
        found.append(f"{summary['expected_failures']} failed as expected")
    if summary["errors"]:
        found.append(f"{summary['errors']} could not be carried out")
    return found


def _number(count: int, of: str) -> str:
    return f"{count} {of}" if count == 1 else f"{count} {of}s"


def outcome_of(check: Check) -> str:
    """How a check ended, in words."""
    return "hazard" if is_hazard(check) else check.outcome.replace("_", " ")


@cache
def _ledger() -> dict[str, Claim]:
    return {claim.id: claim for claim in load_ledger()}
