"""The checks of an audit as a list: which there are, and which took long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theodolite.console import print_entry
from theodolite.selection import Selection, audit_checks

if TYPE_CHECKING:
    from rich.console import Console

    from theodolite.report import Report

SCHEMA = "theodolite-checks/1"


def print_checks(chosen: Selection, printed: Console) -> None:
    """Print each selected check: its id, its component, its claims, and what it says."""
    for name in chosen.checks:
        check = audit_checks()[name]
        judged = f"{check.component}  {', '.join(check.claims)}"
        print_entry(printed, check.id, judged, check.says)
    printed.print(f"{len(chosen.checks)} checks")


def as_document(chosen: Selection) -> dict[str, Any]:
    """The same as plain values, ready for JSON (schema "theodolite-checks/1")."""
    checks = [audit_checks()[name] for name in chosen.checks]
    return {
        "schema": SCHEMA,
        "checks": [
            {
                "id": check.id,
                "component": check.component,
                "claims": list(check.claims),
                "says": check.says,
            }
            for check in checks
        ],
    }


def print_durations(report: Report, printed: Console, count: int) -> None:
    """Print the `count` slowest checks of a report (0: all), slowest first."""
    slowest = sorted(report.checks, key=lambda check: -check.seconds)
    for check in slowest[: count or None]:
        printed.print(f"{check.seconds:8.2f} s  {check.id}")
