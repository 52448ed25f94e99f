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
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.arguments import Parser, one_of, whole
from theodolite.fixtures.errors import SubjectError, TheodoliteError, UsageError
from theodolite.formats import FORMATS, Format
from theodolite.judging_arguments import add_judging_arguments, job_of, require_judgeable
from theodolite.outputs import require_files, write_json, write_text
from theodolite.subject_arguments import add_subject_arguments, complete_from_project, subject_of

if TYPE_CHECKING:
    from theodolite.report import Report
    from theodolite.selection import Selection
    from theodolite.supervisor import Supervisor

EXIT_STATUS = {"pass": 0, "fail": 1, "error": 3, "incomplete": 4}
"""What the process ends with, by verdict; 2 is for the command itself."""

_BY_SIGNAL = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_subject_arguments(parser)
    add_judging_arguments(parser)
    add = parser.add_argument
    add("--list", action="store_true", help="only list the checks that would run")
    add("--durations", type=whole(0), metavar="N", help="show the N slowest checks (0: all)")
    add(
        "--baseline",
        metavar="FILE",
        help="an earlier report, as --json writes it: what failed there fails nothing",
    )
    add(
        "--update-baseline",
        action="store_true",
        help="judge without the baseline, and write the report into it",
    )
    add(
        "--format",
        type=one_of("full", "concise"),
        default="full",
        metavar="full|concise",
        help="how to print the answer: whole (full), or FILE:LINE: CODE: SENTENCE for each problem",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "-v",
        "--verbose",
        action="store_const",
        const=1,
        default=0,
        dest="verbosity",
        help="also list every check, and why some do not apply",
    )
    shown.add_argument(
        "-q",
        "--quiet",
        action="store_const",
        const=-1,
        dest="verbosity",
        help="print the first line alone",
    )
    for each in FORMATS:
        add(each.option, metavar="FILE", help=f"write the report {each.says} (- for stdout)")
    add(
        "--github",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="also print annotations and write a job summary, for a GitHub workflow",
    )
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
    """Audit the subject in a worker process, show and write the report; return the exit status."""
    named = subject_of(arguments)
    _require(arguments, named["declare"])
    if arguments.list:
        return _list(arguments)
    job = job_of(
        arguments,
        named,
        known=_known(arguments),
        scripts=arguments.reproduce,
        pictures=arguments.html is not None,
    )
    from theodolite.supervisor import Supervisor

    with Supervisor(job, arguments.audit_limit) as supervisor:
        from theodolite.progress import Display  # while the worker imports torch

        with Display(named["subject"]) as display:
            supervisor.run(display.show)
    report = supervisor.report()
    failure = _failure(supervisor, report, debug=getattr(arguments, "debug", False))
    if failure is None:
        _show(arguments, report)
    _write(arguments, report)
    if supervisor.interrupted is not None:
        return _BY_SIGNAL + supervisor.interrupted
    if failure is not None:
        raise failure
    if arguments.update_baseline:
        write_json(report.to_dict(), arguments.baseline)
        return 0
    return EXIT_STATUS[report.verdict]


def _known(arguments: argparse.Namespace) -> dict[str, str]:
    """The failures that the baseline knows, where it is not to be written anew."""
    if arguments.baseline is None or arguments.update_baseline:
        return {}
    from theodolite.baseline import known_failures

    return known_failures(arguments.baseline)


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
    from rich.text import Text

    from theodolite.check_list import print_durations
    from theodolite.console import console
    from theodolite.terminal import render

    printed = console(stderr="-" in [file for _, file in _files(arguments)])
    if arguments.format == "concise":
        from theodolite.formats import concise

        printed.print(Text(concise.write(report)), end="", soft_wrap=True)
    else:
        render(report, printed, verbosity=arguments.verbosity)
    if arguments.durations is not None:
        print_durations(report, printed, arguments.durations)


def _require(arguments: argparse.Namespace, declare: Mapping[str, Any]) -> None:
    """Refuse, before a model is loaded, what cannot be declared, run or written."""
    from theodolite.fixtures.subject.declarations import require_declarable
    from theodolite.properties.scripts.folder import ScriptFolder

    require_declarable(declare)
    place = arguments.subject.rpartition(":")[0] or arguments.subject
    if arguments.update_baseline and arguments.baseline is None:
        raise UsageError("--update-baseline needs --baseline FILE: the file to write")
    baseline = arguments.baseline if arguments.update_baseline else None
    require_files(
        {**{each.option: file for each, file in _files(arguments)}, "--baseline": baseline},
        kept=(Path(place), "the subject") if place.endswith(".py") else None,
    )
    if arguments.reproduce is not None:
        ScriptFolder(Path(arguments.reproduce)).require_own()
    require_judgeable(arguments)


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
    for each, file in _files(arguments):
        if file is not None:
            write_text(each.write(report), file)
    if arguments.github:
        from theodolite.formats import github

        sys.stdout.write(github.write(report))
        if file := os.environ.get(github.SUMMARY):
            write_text(github.summary(report), file, mode="a")


def _files(arguments: argparse.Namespace) -> list[tuple[Format, str | None]]:
    """Each way to write a report, and the file that is asked for, if any is."""
    return [(each, getattr(arguments, each.name.replace("-", "_"))) for each in FORMATS]
