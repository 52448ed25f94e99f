"""How a report looks in a notebook: a fragment of HTML that takes the colours around it."""

from __future__ import annotations

from html import escape

from theodolite import explanation
from theodolite.explanation import Block
from theodolite.report import Report

_COLOURS = {"pass": "#2a9d4a", "fail": "#d1453b", "incomplete": "#c98a00", "error": "#c98a00"}
_QUIET = "opacity:.75"


def view(report: Report) -> str:
    """The answer: verdict, causes with their lines, hazards and advice, every check folded away."""
    colour = _COLOURS[report.verdict]
    says = f"<code>{escape(report.subject)}</code> {escape(explanation.headline(report))}"
    parts = [
        f'<div style="border-left:4px solid {colour};padding:.2em 1em;max-width:60em">',
        f'<p><b style="color:{colour}">{report.verdict.upper()}</b> {says}</p>',
    ]
    parts += [f"<p>{escape(said)}</p>" for said in (report.error, report.incomplete) if said]
    blocks = [explanation.block(cause, report) for cause in report.causes]
    if blocks:
        parts.append("<ol>" + "".join(map(_cause, blocks)) + "</ol>")
    parts += [_line("hazard", explanation.hazard(check)) for check in report.hazards]
    parts += [_line("advice", advice["says"]) for advice in report.advice]
    parts.append(f'<p style="{_QUIET}">{escape(explanation.judged(report))}</p>')
    parts.append(_checks(report))
    return "".join([*parts, "</div>"])


def _cause(block: Block) -> str:
    proof = f' <span style="{_QUIET}">({block.proof})</span>' if block.proof else ""
    parts = [f"<li><b>{escape(block.title)}</b>{proof}"]
    if block.place:
        parts.append(f"<br><code>{escape(block.place)}</code>")
    if block.code:
        parts.append(f'<pre style="margin:.3em 1em">{escape(block.code)}</pre>')
    parts += [f"<p>{escape(sentence)}</p>" for sentence in block.sentences]
    parts += [
        f'<p style="{_QUIET}"><i>{escape(name)}</i> {escape(text)}</p>'
        for name, text in block.named
    ]
    return "".join([*parts, "</li>"])


def _line(name: str, text: str) -> str:
    return f"<p><i>{name}</i> {escape(text)}</p>"


def _checks(report: Report) -> str:
    rows = "".join(
        f"<tr><td>{escape(check.id)}</td><td>{explanation.outcome_of(check)}</td>"
        f'<td style="text-align:left">{escape(check.message or explanation.measured(check))}</td>'
        "</tr>"
        for check in report.checks
    )
    return f"<details><summary>{len(report.checks)} checks</summary><table>{rows}</table></details>"
