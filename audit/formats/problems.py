"""What linters call problems: each with a stable code, a level, a sentence and a line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from theodolite.report import Report

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Problem:
    """One thing to mend, or to know.

    Attributes:
        code: "component.cause" of a fault, the check's id of a hazard or an error, "advice".
        level: "error" for what fails the audit, "warning" for a hazard, "note" for advice.
        says: What is wrong, in a sentence.
        file: As seen from the current folder, with slashes; None where none is known.
        line: Its line, from 1; None where none is known.
        function: The function that the line stands in, or "".
        fingerprint: The same for the same fault in the same function, on whatever line it stands.
    """

    code: str
    level: Level
    says: str
    file: str | None = None
    line: int | None = None
    function: str = ""
    fingerprint: str = ""

    @property
    def place(self) -> str:
        """``file:line``, as editors open it; "" where no file is known."""
        return ":".join(str(part) for part in (self.file, self.line) if part is not None)


def problems(report: Report) -> Iterator[Problem]:
    """The faults of a report by their causes, then errors, hazards and advice."""
    explained = {check for cause in report.causes for check in cause.explains}
    for cause in report.causes:
        code = ".".join(part for part in (cause.component, cause.cause) if part)
        yield _problem(report, code, "error", cause.says, cause.source)
    for check in report.failures:
        if check.id not in explained:
            yield _problem(report, check.id, "error", check.message, check.source)
    if report.error is not None:
        yield _problem(report, "subject", "error", report.error, None)
    if report.incomplete is not None and report.verdict == "incomplete":
        yield _problem(report, "incomplete", "error", report.incomplete, None)
    for check in report.hazards:
        if check.id not in explained:
            yield _problem(report, check.id, "warning", check.message, check.source)
    for advice in report.advice:
        yield _problem(report, "advice", "note", advice["says"], None)


def _problem(
    report: Report, code: str, level: Level, says: str, source: Mapping[str, Any] | None
) -> Problem:
    function = "" if source is None else source["function"]
    named = "\0".join((report.subject, code, function))
    return Problem(
        code,
        level,
        says,
        _file_of(report.subject) if source is None else _seen_from_here(source["file"]),
        None if source is None else source["line"],
        function,
        hashlib.sha256(named.encode()).hexdigest(),
    )


def _file_of(subject: str) -> str | None:
    """The file that names a subject, if one does."""
    file = subject if subject.endswith((".py", ".ipynb")) else subject.rpartition(":")[0]
    return _seen_from_here(file) if file.endswith((".py", ".ipynb")) else None


def _seen_from_here(file: str) -> str:
    path, folder = Path.cwd() / file, Path.cwd()
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()
