"""A report as linters print: ``file:line: code: sentence``, one line a problem."""

from __future__ import annotations

from theodolite.formats.problems import Problem, problems
from theodolite.report import Report


def write(report: Report) -> str:
    """One line for each problem; none for a report that has none."""
    return "".join(f"{_line(problem, report)}\n" for problem in problems(report))


def _line(problem: Problem, report: Report) -> str:
    kind = {"error": "", "warning": "hazard ", "note": ""}[problem.level]
    says = " ".join(problem.says.split())
    return f"{problem.place or report.subject}: {kind}{problem.code}: {says}"
