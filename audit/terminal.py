"""How a report looks on a terminal and in a notebook."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from theodolite.explanation import explanation
from theodolite.report import Check, Report, is_hazard

_COLOURS = {"pass": "green", "fail": "red", "incomplete": "yellow", "error": "yellow"}


def render(report: Report, console: Console) -> None:
    """Print the notes, a line for each group of checks, a panel for each failure, the diagnosis."""
    for note in report.notes:
        console.print(f"[dim]· {escape(note)}[/dim]")
    groups: dict[str, list[Check]] = {}
    for check in report.checks:
        groups.setdefault(check.id.partition(".")[0], []).append(check)
    for name, checks in groups.items():
        console.print(_line(name, checks))
    explained: set[str] = set()
    shown = report.failures
    for check in [*shown, *(each for each in report.hazards if each not in shown)]:
        console.print(_panel(check, report, explained))
    console.print(_conclusion(report))


def to_html(report: Report) -> str:
    """The same as HTML, for a notebook."""
    console = Console(record=True, width=100, file=io.StringIO())
    render(report, console)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def _line(name: str, checks: list[Check]) -> Text:
    counts = {
        outcome: sum(check.outcome == outcome for check in checks)
        for outcome in ("passed", "failed", "error", "expected_failure", "not_applicable")
    }
    counts["hazard"] = sum(map(is_hazard, checks))
    counts["failed"] -= counts["hazard"]
    bad = counts["failed"] + counts["error"]
    mark, colour = ("✗", "red") if bad else ("✓", "green") if counts["passed"] else ("–", "dim")
    mark, colour = ("!", "yellow") if counts["hazard"] and not bad else (mark, colour)
    said = ", ".join(f"{n} {outcome.replace('_', ' ')}" for outcome, n in counts.items() if n)
    line = Text.assemble((f"{mark} {name:<12} ", colour), said)
    for check in checks:
        if check.outcome == "not_applicable":
            line.append(f"\n    {check.id}: {check.message}", style="dim")
        elif check.outcome == "expected_failure":
            line.append(f"\n    {check.id}: {check.message}", style="yellow")
    return line


def _panel(check: Check, report: Report, explained: set[str]) -> RenderableType:
    """One failure: what was expected and measured, why it must hold, what it may be, what to run.

    A claim is explained once: panels of the same claim further down name it only.
    """
    rows = Table.grid(padding=(0, 1))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    for name, text in explanation(check, report, explained):
        rows.add_row(name, Text(text))
    title = f"hazard · {check.id}" if is_hazard(check) else check.id
    colour = "yellow" if is_hazard(check) else "red"
    return Panel(
        rows, title=f"{title} · {check.component}", title_align="left", border_style=colour
    )


def _conclusion(report: Report) -> Text:
    summary = report.summary
    colour = _COLOURS[report.verdict]
    text = Text.assemble((f"{report.verdict.upper()}  ", f"bold {colour}"), report.subject, ": ")
    text.append(
        f"{summary['passed']} of {summary['planned']} checks passed, {summary['failed']} failed, "
        f"{summary['not_applicable']} not applicable"
    )
    if summary["hazards"]:
        hazards = f"hazard{'s' if summary['hazards'] > 1 else ''}"
        of_them = f"of them {hazards}" if report.strict else f"{hazards} (see --strict)"
        text.append(f", {summary['hazards']} {of_them}")
    if summary["expected_failures"]:
        text.append(f", {summary['expected_failures']} failed as expected")
    if summary["errors"]:
        text.append(f", {summary['errors']} could not be carried out")
    text.append(f" ({report.passes:.0f} forward passes, {report.seconds:.1f} s)")
    for said in (report.error, report.incomplete):
        if said is not None:
            text.append(f"\n{said}", style="yellow")
    for accused in report.diagnosis:
        cause = f" ({accused['cause']})" if accused["cause"] else ""
        text.append(f"\nsuspect: {accused['component']}{cause}", style="bold")
        text.append(f", {accused['probability']:.0%}: {accused['says']}")
        text.append(f" Seen by {', '.join(accused['explains'])}.", style="dim")
    return text
