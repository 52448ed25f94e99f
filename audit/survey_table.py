"""How a survey looks on a terminal and in a notebook."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from theodolite.surveying import Line, Survey

COLOURS = {"pass": "green", "fail": "red", "incomplete": "yellow", "error": "yellow"}

_SHORT = 160
_SUSPECTS = 5


def render(survey: Survey, console: Console, *, short: bool = False) -> None:
    """Print notes, a row for each subject, what they suffer from most often, and the counts.

    Args:
        survey: What was found.
        console: Where to print.
        short: Print the counts alone.
    """
    if not short:
        for note in survey.notes:
            console.print(Text(f"· {note}", style="dim"))
        console.print(_rows(survey))
        for cause, count in survey.causes[:_SUSPECTS]:
            console.print(Text.assemble((f"{count} × ", "bold"), cause))
    console.print(_counts(survey))


def to_html(survey: Survey) -> str:
    """The same as HTML, for a notebook."""
    console = Console(record=True, width=120, file=io.StringIO())
    render(survey, console)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def row(line: Line) -> Text:
    """A subject in a line."""
    verdict = line["verdict"]
    told = Text.assemble((f"{verdict:<10} ", COLOURS[verdict]), line["subject"])
    told.append(f" ({line['seconds']:.1f} s)", style="dim")
    if line["says"]:
        told.append(f": {_shortened(line['says'])}")
    return told


def _rows(survey: Survey) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("subject", overflow="fold")
    table.add_column("passed", justify="right", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for line in survey.lines:
        passed = f"{line['summary']['passed']}/{line['summary']['planned']}"
        table.add_row(
            Text(line["verdict"], style=COLOURS[line["verdict"]]),
            Text(line["subject"]),
            passed,
            f"{line['seconds']:.1f}",
            Text(_shortened(line["says"])),
        )
    return table


def _counts(survey: Survey) -> Text:
    verdict, count = survey.verdict, survey.verdicts
    said = {"pass": "passed", "fail": "failed", "error": "in error", "incomplete": "incomplete"}
    told = Text.assemble((f"{verdict.upper()}  ", f"bold {COLOURS[verdict]}"))
    told.append(f"{sum(count.values()) + len(survey.left)} subjects: ")
    told.append(", ".join(f"{count[each]} {words}" for each, words in said.items() if count[each]))
    if survey.left:
        told.append(f"{', ' if survey.lines else ''}{len(survey.left)} left to audit")
    return told


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"
