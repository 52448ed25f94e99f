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

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from theodolite.fixtures.errors import SubjectError
from theodolite.junit import to_junit
from theodolite.report import Report
from theodolite.settings import project_settings
from theodolite.subject_arguments import add_subject_arguments, subject_of
from theodolite.terminal import render

_FAILED = 1


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


def run(arguments: argparse.Namespace) -> int:
    """Audit the subject, show and write the report; return the exit status."""
    from theodolite.fixtures.subject.subject import Subject  # imports torch, which --help can do without
    from theodolite.run import audit

    project = project_settings(Path.cwd())
    named = subject_of(arguments, project)
    console = Console(stderr=arguments.json == "-")
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(f"auditing {named['subject']}", total=None)
        try:
            subject = Subject.load(
                named["subject"],
                settings=named["settings"],
                declarations=named["declare"],
                as_configured=named["as_configured"],
                seconds=named["time_limit"],
            )
            report = audit(
                subject,
                expected_failures=project.expected_failures,
                budget=arguments.budget,
                select=arguments.select,
                explore=arguments.explore,
                progress=lambda done, planned: bar.update(task, completed=done, total=planned),
            )
        except SubjectError as error:
            _write(arguments, Report(subject=named["subject"], error=str(error)))
            raise
        if arguments.reproduce is not None:
            from theodolite.properties.scripts import write_scripts

            bar.update(task, description="writing scripts")
            report = write_scripts(subject, report, Path(arguments.reproduce))
    render(report, console)
    _write(arguments, report)
    return 0 if report.verdict == "pass" else _FAILED


def _write(arguments: argparse.Namespace, report: Report) -> None:
    if arguments.json is not None:
        write_json(report.to_dict(), arguments.json)
    if arguments.junit is not None:
        Path(arguments.junit).write_text(to_junit(report), encoding="utf-8")


def write_json(document: dict[str, Any], target: str) -> None:
    """Write `document` to the file `target`, or to standard output where it is ``-``."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")
