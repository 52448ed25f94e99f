"""How a report looks on a terminal: the answer, and with more words every check."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from theodolite import explanation
from theodolite.explanation import Block
from theodolite.report import Check, Report

MOST = {"pass": 12}
"""Lines of an answer where it has at most one cause, by verdict; `LINES` for the others."""

LINES = 25

_COLOURS = {"pass": "green", "fail": "red", "incomplete": "yellow", "error": "yellow"}
_STATES = {"failed": "red", "error": "red", "hazard": "yellow", "expected failure": "yellow",
           "passed": "green", "not applicable": "dim"}  # fmt: skip
_INDENT = "   "
_PARAGRAPH = 5
"""Lines of one paragraph at most, where the answer is short."""

Line = tuple[str, str]
"""A text, and its style."""


def render(report: Report, console: Console, *, verbosity: int = 0) -> None:
    """Print the answer.

    Args:
        report: What an audit found.
        console: Where to; its width is that of the lines.
        verbosity: -1 for the first line alone, 0 for the answer, 1 for every check besides.
    """
    for text, style in lines_of(report, console.width, verbosity=verbosity):
        console.print(Text(text, style=style), soft_wrap=True)


def lines_of(report: Report, width: int, *, verbosity: int = 0) -> list[Line]:
    """The answer as lines of at most `width` columns, a word that is longer left whole."""
    first = _first(report, width)
    if verbosity < 0:
        return first[:1]
    answer = list(first)
    for number, cause in enumerate(report.causes, 1):
        answer += [("", ""), *_cause(explanation.block(cause, report), number, width)]
    answer += _beside(report, width)
    end = [("", ""), *_last(report, width, verbosity=verbosity)]
    if verbosity > 0:
        return [*answer, *_notes(report, width), *_every_check(report, width), *end]
    room = MOST.get(report.verdict, LINES) - len(answer) - len(end)
    notes = _notes(report, width)
    return [*answer, *(notes if len(notes) <= room else ()), *end]


def _first(report: Report, width: int) -> list[Line]:
    """The verdict, the subject and the counts; why nothing more is known."""
    verdict = report.verdict
    says = f"{verdict.upper()}  {report.subject}   {explanation.headline(report)}"
    lines = _wrapped(f"{says}   {report.seconds:.1f} s", width, "      ")
    found = [(line, f"bold {_COLOURS[verdict]}") for line in lines]
    for said in (report.error, report.incomplete):
        if said is not None:
            found += [(line, "yellow") for line in _wrapped(said, width)]
    errors = [c for c in report.checks if c.outcome == "error"] if verdict != "pass" else []
    for check in errors[:3]:
        found += [(line, "yellow") for line in _wrapped(f"{check.id}: {check.message}", width)]
    return found


def _cause(block: Block, number: int, width: int) -> Iterator[Line]:
    """A numbered block: what, where, the code, what was measured, why, what shows it."""
    gap = max(2, width - len(block.title) - len(block.proof) - len(f"{number}  "))
    title = f"{number}  {block.title}" + (" " * gap + block.proof if block.proof else "")
    for line in [title] if len(title) <= width else _wrapped(title, width, _INDENT):
        yield line, "bold"
    if block.place:
        yield from ((line, "cyan") for line in _wrapped(block.place, width, _INDENT, _INDENT))
    if block.code:
        yield f"{_INDENT}  {block.code}", ""
    for sentence in block.sentences:
        yield from ((line, "") for line in _paragraph(sentence, width, _INDENT))
    for name, text in block.named:
        begin = f"{_INDENT}{name:<14}  "
        yield from ((line, "dim") for line in _paragraph(text, width, begin, " " * len(begin)))


def _beside(report: Report, width: int) -> list[Line]:
    """Hazards and advice, and failures that no cause explains."""
    explained = {check for cause in report.causes for check in cause.explains}
    alone = [c for c in report.failures if c.outcome == "failed" and c.id not in explained]
    lines = [(line, "red") for c in alone for line in _short("fault", _told(c), width)]
    if not report.strict:
        for check in report.hazards:
            lines += [(s, "yellow") for s in _short("hazard", explanation.hazard(check), width)]
    for advice in report.advice:
        lines += [(line, "dim") for line in _short("advice", advice["says"], width)]
    return [("", ""), *lines] if lines else []


def _told(check: Check) -> str:
    return f"{check.component}: {check.message}"


def _notes(report: Report, width: int) -> list[Line]:
    lines = [(line, "dim") for note in report.notes for line in _short("note", note, width)]
    return [("", ""), *lines] if lines else []


def _short(name: str, text: str, width: int) -> list[str]:
    begin = f"{name:<6}  "
    return _wrapped(text, width, " " * len(begin), begin)


def _last(report: Report, width: int, *, verbosity: int) -> list[Line]:
    hint = "" if verbosity > 0 else "   -v lists all checks"
    return [(line, "dim") for line in _wrapped(explanation.judged(report) + hint, width)]


def _every_check(report: Report, width: int) -> Iterator[Line]:
    """A line for each check that came to an end, and each reason for which others do not apply."""
    yield "", ""
    for check in report.checks:
        outcome = explanation.outcome_of(check)
        if outcome == "not applicable":
            continue
        begin = f"{outcome:<17} {check.id}"
        told = check.message if outcome != "passed" else explanation.measured(check)
        text = f"{begin}  {told}".rstrip()
        yield from ((line, _STATES[outcome]) for line in _wrapped(text, width, _INDENT))
    for reason, checks in explanation.unjudged(report).items():
        text = f"not applicable    {', '.join(checks)}: {reason}"
        yield from ((line, "dim") for line in _wrapped(text, width, _INDENT))


def _paragraph(text: str, width: int, indent: str, others: str | None = None) -> Sequence[str]:
    """Text as lines; whole sentences, as many as have room."""
    lines = _wrapped(text, width, indent if others is None else others, indent)
    sentences = text.split(". ")
    while len(lines) > _PARAGRAPH and len(sentences) > 1:
        sentences.pop()
        shorter = ". ".join(sentences) + "."
        lines = _wrapped(shorter, width, indent if others is None else others, indent)
    return lines


def _wrapped(text: str, width: int, others: str = "", first: str = "") -> list[str]:
    """Text as lines, broken between words alone."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]
