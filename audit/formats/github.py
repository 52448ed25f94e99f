"""A report in a GitHub workflow: annotations on standard output, a summary of the job."""

from __future__ import annotations

from theodolite.formats.problems import Problem, problems
from theodolite.report import Report

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the file for the job's summary."""

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def write(report: Report) -> str:
    """Workflow commands, one line for each problem."""
    return "".join(f"{_annotation(problem)}\n" for problem in problems(report))


def summary(report: Report) -> str:
    """The answer as Markdown."""
    counts = report.summary
    found = list(problems(report))
    judged = "{passed} of {planned} checks passed, {failed} failed".format_map(counts)
    lines = [f"### Theodolite: {report.verdict}", "", f"`{report.subject}`: {judged}.", ""]
    if found:
        lines += ["| | where | what |", "|---|---|---|"]
        lines += [
            f"| {problem.level} | {_cell(f'`{problem.place}`' if problem.place else '')} "
            f"| **{_cell(problem.code)}** {_cell(problem.says)} |"
            for problem in found
        ]
        lines.append("")
    if report.command:
        lines += [f"Again: `{report.command}`", ""]
    return "\n".join(lines)


def _annotation(problem: Problem) -> str:
    options = {
        "file": problem.file,
        "line": problem.line,
        "title": f"theodolite: {problem.code}",
    }
    told = ",".join(
        f"{name}={_property(str(value))}" for name, value in options.items() if value is not None
    )
    return f"::{_COMMANDS[problem.level]} {told}::{_data(problem.says)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
