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

from theodolite.arguments import Listed, Parser, amount, one_of, seconds, whole
from theodolite.command_line import BUDGET, BUDGETS
from theodolite.fixtures.errors import SubjectError, TheodoliteError, UsageError
from theodolite.outputs import require_files, write_json, write_text
from theodolite.subject_arguments import add_subject_arguments, complete_from_project, subject_of

if TYPE_CHECKING:
    from theodolite.job import Job
    from theodolite.report import Report
    from theodolite.selection import Selection
    from theodolite.supervisor import Supervisor

EXIT_STATUS = {"pass": 0, "fail": 1, "error": 3, "incomplete": 4}
"""What the process ends with, by verdict; 2 is for the command itself."""

_BY_SIGNAL = 128
_AUDIT_LIMIT = 3600.0


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
    add(
        "--strict",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="fail for hazards too: what goes wrong in a use alone that nobody has declared",
    )
    add(
        "--proof",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="prove causes: mend what is said to be wrong in a copy and judge again what failed",
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
    add(
        "--audit-limit",
        type=seconds,
        default=_AUDIT_LIMIT,
        metavar="SECONDS",
        help=f"longest that the whole audit may take ({_AUDIT_LIMIT:g})",
    )
    add(
        "--memory-limit",
        type=amount("GiB"),
        metavar="GIB",
        help="memory that the audit may use (8 GiB and 16 times the weights, at most three "
        "quarters of what is free)",
    )


def complete(parser: Parser) -> None:
    """Take defaults from the project's pyproject.toml."""
    complete_from_project(parser, every=True)


def run(arguments: argparse.Namespace) -> int:
    """Audit the subject in a worker process, show and write the report; return the exit status."""
    named = subject_of(arguments)
    _require(arguments, named["declare"])
    if arguments.list:
        return _list(arguments)
    job = _job(arguments, named)
    from theodolite.supervisor import Supervisor

    with Supervisor(job, arguments.audit_limit) as supervisor:
        from theodolite.progress import Display  # while the worker imports torch

        with Display(named["subject"]) as display:
            supervisor.run(display.show)
    report = _report(supervisor, job)
    failure = _failure(supervisor, report, debug=getattr(arguments, "debug", False))
    if failure is None:
        _show(arguments, report)
    _write(arguments, report)
    if supervisor.interrupted is not None:
        return _BY_SIGNAL + supervisor.interrupted
    if failure is not None:
        raise failure
    return EXIT_STATUS[report.verdict]


def _job(arguments: argparse.Namespace, named: dict[str, Any]) -> Job:
    from theodolite.job import Job

    return Job(
        named,
        expected=arguments.expected_failures,
        budget=arguments.budget,
        select=arguments.select,
        skip=arguments.skip,
        keyword=arguments.keyword,
        explore=arguments.explore,
        fail_fast=arguments.fail_fast,
        strict=arguments.strict,
        proof=arguments.proof,
        scripts=arguments.reproduce,
        memory_limit=arguments.memory_limit,
    )


def _report(supervisor: Supervisor, job: Job) -> Report:
    from theodolite.fixtures.judging.wording import clean
    from theodolite.report import Report

    found, cut_short = supervisor.findings, supervisor.cut_short
    error = None
    if found.refusal is not None:
        error = found.refusal.says
    elif not found.items:
        error = cut_short or "nothing was judged"
    return Report(
        subject=found.subject or clean(job.named["subject"]),
        checks=found.checks(job.expected),
        notes=(*found.notes, *job.left_out),
        command=job.command,
        passes=found.passes,
        seconds=supervisor.seconds,
        error=error,
        anatomy=found.anatomy,
        strict=job.strict,
        told=found.causes,
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


def _show(arguments: argparse.Namespace, report: Report) -> None:
    from theodolite.check_list import print_durations
    from theodolite.console import console
    from theodolite.terminal import render

    printed = console(stderr="-" in (arguments.json, arguments.junit))
    render(report, printed)
    if arguments.durations is not None:
        print_durations(report, printed, arguments.durations)


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
    if arguments.select or arguments.skip or arguments.keyword is not None:
        _selected(arguments)
    if arguments.expected_failures:
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
