"""A failed check in words: what was expected and measured, why it must hold, what it may be."""

from __future__ import annotations

from functools import cache

from theodolite.fixtures.judging.bounds import allowed
from theodolite.properties.ledger import Claim, load_ledger
from theodolite.report import Check, Report

_CAUSES = 3


def explanation(
    check: Check, report: Report, explained: set[str] | None = None
) -> list[tuple[str, str]]:
    """The lines of an explanation, each with its name; empty ones are left out.

    Args:
        check: A check of `report` that failed or could not be carried out.
        report: Whose diagnosis names the likely causes.
        explained: Claims whose statement and reason a reader has seen already; those that this
            explanation gives are added.
    """
    explained = set() if explained is None else explained
    claims = [_ledger()[name] for name in check.claims if name in _ledger()]
    fresh = [claim for claim in claims if claim.id not in explained][:1]
    explained.update(claim.id for claim in fresh)
    named = ", ".join(claim.id for claim in claims)
    lines = [
        ("claim", f"{named}: {fresh[0].statement}" if fresh else f"{named} (see above)"),
        ("expected", check.expected or check.message),
        ("measured", _measured(check)),
        ("where", ", ".join(f"{key} {value}" for key, value in check.where.items())),
        ("why", fresh[0].why if fresh else ""),
        ("look at", check.remedy),
        ("likely", likely(check, report)),
        ("again", check.reproduce),
        ("script", check.script or (f"none: {check.no_script}" if check.no_script else "")),
    ]
    return [(name, text) for name, text in lines if text and (name != "claim" or claims)]


def likely(check: Check, report: Report) -> str:
    """The check's own finding, then the causes for which the diagnosis counts it as evidence."""
    said = [f"{check.cause} ({check.component})"] if check.cause else []
    said += [f"{c.says} ({c.component})" for c in report.causes if check.id in c.explains]
    return "; ".join(list(dict.fromkeys(said))[:_CAUSES])


def as_text(check: Check, report: Report) -> str:
    """The explanation as plain lines, for a file."""
    return "\n".join(f"{name}: {text}" for name, text in explanation(check, report))


@cache
def _ledger() -> dict[str, Claim]:
    return {claim.id: claim for claim in load_ledger()}


def _measured(check: Check) -> str:
    if check.outcome != "failed" or check.measured is None:
        return ""
    bound = allowed(check.at_most, check.at_least)
    return f"{check.measured:.3g}{bound and f', {bound}'}"
