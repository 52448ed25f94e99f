"""Audit a model: hold it to every claim that applies to it.

Examples:
  theodolite audit
  theodolite audit my_gpt.py:GPT --set vocab=74
  theodolite audit hf:llama --json report.json
  theodolite audit package.model:Transformer --declare longest=1024 --budget quick
  theodolite audit my_gpt.py:GPT --reproduce failures
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from theodolite.fixtures.errors import SubjectError, TheodoliteError, UsageError
from theodolite.fixtures.judging.wording import clean
from theodolite.job import Job
from theodolite.report import Report
from theodolite.selecting import require_budget, require_checks
from theodolite.settings import ProjectSettings, project_settings
from theodolite.subject_arguments import add_subject_arguments, subject_of
from theodolite.supervisor import Supervisor

EXIT_STATUS = {"pass": 0, "fail": 1, "error": 3, "incomplete": 4}
"""What the process ends with, by verdict; 2 is for the command itself."""

_BY_SIGNAL = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_subject_arguments(parser)
    parser.add_argument("--budget", default="standard", help="quick, standard or thorough")
    parser.add_argument(
        "--select",
        metavar="CHECK",
        action="append",
        help="run this check, or all whose ids begin with it (causality); repeatable",
    )
    parser.add_argument("--explore", action="store_true", help="draw fresh examples in this run")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON (- for stdout)")
    parser.add_argument("--junit", metavar="FILE", help="write the report as JUnit XML")
    parser.add_argument(
        "--reproduce",
        metavar="DIR",
        help="write into DIR, for each failed check, a script that shows it without Theodolite",
    )
    parser.add_argument(
        "--audit-limit",
        type=float,
        default=3600.0,
        metavar="SECONDS",
        help="longest that the whole audit may take (3600)",
    )
    parser.add_argument(
        "--memory-limit",
        type=float,
        metavar="GIB",
        help="memory that the audit may use (8 GiB and 16 times the weights, at most three "
        "quarters of what is free)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Audit the subject in a worker process, show and write the report; return the exit status."""
    project = project_settings(Path.cwd())
    job = _job(arguments, project)
    with Supervisor(job, arguments.audit_limit) as supervisor:
        from theodolite.progress import Display  # while the worker imports torch

        with Display(job.named["subject"]) as display:
            supervisor.run(display.show)
    report = _report(supervisor, job)
    failure = _failure(supervisor, report, debug=arguments.debug)
    if failure is None:
        from rich.console import Console

        from theodolite.terminal import render

        render(report, Console(stderr=arguments.json == "-"))
    _write(arguments, report)
    if supervisor.interrupted is not None:
        return _BY_SIGNAL + supervisor.interrupted
    if failure is not None:
        raise failure
    return EXIT_STATUS[report.verdict]


def _job(arguments: argparse.Namespace, project: ProjectSettings) -> Job:
    require_budget(arguments.budget)
    require_checks(project.expected_failures, "expected failures name")
    require_checks(arguments.select or (), "select names")
    for name in ("audit_limit", "memory_limit"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < float("inf"):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} {value:g}: give a number greater than 0")
    return Job(
        subject_of(arguments, project),
        expected=project.expected_failures,
        budget=arguments.budget,
        select=arguments.select,
        explore=arguments.explore,
        scripts=arguments.reproduce,
        memory_limit=arguments.memory_limit,
    )


def _report(supervisor: Supervisor, job: Job) -> Report:
    found, cut_short = supervisor.findings, supervisor.cut_short
    error = None
    if found.refusal is not None:
        error = found.refusal.says
    elif not found.items:
        error = cut_short or "nothing was judged"
    return Report(
        subject=found.subject or clean(job.named["subject"]),
        checks=found.checks(job.expected),
        notes=tuple(found.notes),
        passes=found.passes,
        seconds=supervisor.seconds,
        error=error,
        anatomy=found.anatomy,
        cut_short=None if cut_short is None else f"{cut_short[0].upper()}{cut_short[1:]}.",
    )


def _failure(supervisor: Supervisor, report: Report, *, debug: bool) -> TheodoliteError | None:
    """What the command ends with where there is nothing to show."""
    refusal = supervisor.findings.refusal
    if refusal is not None:
        if debug:
            sys.stderr.write(refusal.traceback)
        kind = UsageError if refusal.status == UsageError.exit_status else SubjectError
        return kind(refusal.says)
    return SubjectError(report.error) if report.error is not None else None


def _write(arguments: argparse.Namespace, report: Report) -> None:
    if arguments.json is not None:
        write_json(report.to_dict(), arguments.json)
    if arguments.junit is not None:
        from theodolite.junit import to_junit

        Path(arguments.junit).write_text(to_junit(report), encoding="utf-8")


def write_json(document: dict[str, Any], target: str) -> None:
    """Write `document` to the file `target`, or to standard output where it is ``-``."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")
