"""Audit a model: hold it to every claim that applies to it.

Examples:
  theodolite audit
  theodolite audit my_gpt.py:GPT --set vocab=74
  theodolite audit hf:llama --json report.json
  theodolite audit package.model:Transformer --declare longest=1024 --budget quick
  theodolite audit my_gpt.py:GPT --reproduce failures
  theodolite audit --list -k "rope and not cache"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.arguments import Listed, Parser, one_of, whole
from theodolite.command_line import BUDGET, BUDGETS, Audit
from theodolite.fixtures.errors import SubjectError
from theodolite.outputs import require_files, write_json, write_text
from theodolite.subject_arguments import add_subject_arguments, complete_from_project, subject_of

if TYPE_CHECKING:
    from theodolite.report import Report
    from theodolite.selection import Selection

_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_subject_arguments(parser)
    add = parser.add_argument
    add(
        "--budget",
        type=one_of(*BUDGETS),
        default=BUDGET,
        metavar="|".join(BUDGETS),
        help=f"what the audit may cost ({BUDGET})",
    )
    add(
        "--select",
        metavar="CHECK",
        action=Listed,
        help="run this check, group (causality), claim (ATT-4) or chapter (ROPE); repeatable",
    )
    add("--skip", metavar="CHECK", action=Listed, help="leave these out; repeatable")
    add("-k", "--keyword", metavar="EXPRESSION", help='run what it names: "rope and not cache"')
    add("--list", action="store_true", help="only list the checks that would run")
    add(
        "--explore",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="draw fresh examples in this run",
    )
    add(
        "--fail-fast",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="stop at the first failure",
    )
    add("--durations", type=whole(0), metavar="N", help="show the N slowest checks (0: all)")
    add("--json", metavar="FILE", help="write the report as JSON (- for stdout)")
    add("--junit", metavar="FILE", help="write the report as JUnit XML (- for stdout)")
    add(
        "--reproduce",
        metavar="DIR",
        help="write into DIR, a new folder or one made by this option, for each failed check a "
        "script that shows it without Theodolite",
    )


def complete(parser: Parser) -> None:
    """Take defaults from the project's pyproject.toml."""
    complete_from_project(parser, every=True)


def run(arguments: argparse.Namespace) -> int:
    """Audit the subject, show and write the report; return the exit status."""
    named = subject_of(arguments)
    _require(arguments, named["declare"])
    if arguments.list:
        return _list(arguments)
    from rich.progress import BarColumn, Progress, TextColumn

    from theodolite.check_list import print_durations
    from theodolite.console import console
    from theodolite.fixtures.subject.subject import Subject
    from theodolite.report import Report
    from theodolite.run import audit
    from theodolite.terminal import render

    printed = console(stderr="-" in (arguments.json, arguments.junit))
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        console=console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    again = Audit(**named, budget=arguments.budget, explore=arguments.explore)
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
                expected_failures=arguments.expected_failures,
                budget=arguments.budget,
                select=arguments.select,
                skip=arguments.skip,
                keyword=arguments.keyword,
                explore=arguments.explore,
                fail_fast=arguments.fail_fast,
                progress=lambda done, planned: bar.update(task, completed=done, total=planned),
                named=again,
            )
        except SubjectError as error:
            command = again.again(arguments.select or (), arguments.skip or (), arguments.keyword)
            report = Report(subject=named["subject"], error=str(error), command=command)
            _write(arguments, report)
            raise
        if arguments.reproduce is not None:
            from theodolite.properties.scripts import write_scripts

            bar.update(task, description="writing scripts")
            report = write_scripts(subject, report, Path(arguments.reproduce))
    render(report, printed)
    if arguments.durations is not None:
        print_durations(report, printed, arguments.durations)
    _write(arguments, report)
    return 0 if report.verdict == "pass" else _FAILED


def _require(arguments: argparse.Namespace, declare: Mapping[str, Any]) -> None:
    """Refuse, before a model is loaded, what cannot be declared, run or written."""
    from theodolite.fixtures.subject.declarations import require_declarable
    from theodolite.properties.scripts.folder import ScriptFolder
    from theodolite.selection import require_expected

    require_declarable(declare)
    place = arguments.subject.rpartition(":")[0] or arguments.subject
    require_files(
        {"--json": arguments.json, "--junit": arguments.junit},
        kept=(Path(place), "the subject") if place.endswith(".py") else None,
    )
    if arguments.reproduce is not None:
        ScriptFolder(Path(arguments.reproduce)).require_own()
    _selected(arguments)
    require_expected(arguments.expected_failures)


def _list(arguments: argparse.Namespace) -> int:
    from theodolite.check_list import as_document, print_checks
    from theodolite.console import console

    chosen = _selected(arguments)
    if arguments.json is not None:
        write_json(as_document(chosen), arguments.json)
    if arguments.json != "-":
        print_checks(chosen, console())
    return 0


def _selected(arguments: argparse.Namespace) -> Selection:
    from theodolite.selection import selection

    return selection(arguments.select, arguments.skip, arguments.keyword, budget=arguments.budget)


def _write(arguments: argparse.Namespace, report: Report) -> None:
    if arguments.json is not None:
        write_json(report.to_dict(), arguments.json)
    if arguments.junit is not None:
        from theodolite.junit import to_junit

        write_text(to_junit(report), arguments.junit)
