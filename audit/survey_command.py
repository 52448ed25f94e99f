"""Audit many models side by side, each in a process of its own: a course, a zoo, a nightly run.

Examples:
  theodolite survey 'submissions/*/model.py' --budget quick --out results
  theodolite survey --from LIST.txt --jobs 8 --audit-limit 600
  theodolite survey hf:llama hf:gpt2 my_gpt.py:GPT --json -
  theodolite survey --from LIST.txt --dask tcp://scheduler:8786

Each result is in the folder of --out as soon as it is there. The same command goes on where it
stopped, whatever ended it. A line of LIST.txt is a subject and options of its own, if any:

  submissions/ada/model.py:GPT --set vocab=74

Exit status: 0 every subject passed; 1 one failed; 2 the command is wrong; 3 none failed, and one
could not be loaded; 4 none of these, and one is incomplete, or the Dask scheduler was lost; 130
and 143 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from theodolite.arguments import Parser, add_fleet_arguments
from theodolite.judging_arguments import add_judging_arguments
from theodolite.outputs import require_files, write_json
from theodolite.subject_arguments import add_building_arguments, complete_from_project

if TYPE_CHECKING:
    from rich.console import Console

    from theodolite.surveying import Line, Survey

_OUT = "survey"
_BY_SIGNAL = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help="as for `theodolite audit`, or a pattern of files: 'submissions/*/model.py'",
    )
    add(
        "--from",
        dest="lists",
        action="append",
        default=[],
        metavar="LIST",
        help="take the subjects of a file, one a line (- for standard input); repeatable",
    )
    add(
        "--out",
        default=_OUT,
        metavar="DIR",
        help=f"folder of lines, reports and index ({_OUT}); with those of before, go on from them",
    )
    add_fleet_arguments(parser)
    add("--retry", action="store_true", help="audit again, too, what could not be judged before")
    add("-q", "--quiet", action="store_true", help="show the counts alone")
    add("--json", metavar="FILE", help="write the survey as JSON (- for stdout)")
    add_building_arguments(parser)
    add_judging_arguments(parser)


def complete(parser: Parser) -> None:
    """Take defaults from the project's pyproject.toml, but for what concerns one audit alone."""
    complete_from_project(parser, every=True, apart=("json", "quiet"))


def run(arguments: argparse.Namespace) -> int:
    """Audit the subjects, show and write what was found; return the exit status."""
    from theodolite.audit_command import EXIT_STATUS
    from theodolite.fixtures.loading.settings import parse_settings
    from theodolite.fixtures.subject.declarations import require_declarable
    from theodolite.fleet import fleet_of
    from theodolite.survey_folder import SurveyFolder
    from theodolite.surveying import Plan

    require_files({"--json": arguments.json})
    require_declarable(parse_settings(arguments.declare))
    plan = Plan.of(arguments.subjects, arguments.lists, arguments)
    with SurveyFolder(Path(arguments.out)) as folder:
        fleet = fleet_of(arguments.jobs, arguments.dask, arguments.audit_limit)
        with _Stopping() as stopping, _Progress(quiet=arguments.quiet) as progress:
            plan.carry_out(folder, fleet, retry=arguments.retry, told=progress.tell)
        survey = plan.survey(folder)
    _show(arguments, survey)
    if stopping.signal is not None:
        return _BY_SIGNAL + stopping.signal
    return EXIT_STATUS[survey.verdict]


def _show(arguments: argparse.Namespace, survey: Survey) -> None:
    from theodolite.console import console
    from theodolite.survey_folder import INDEX
    from theodolite.survey_table import render

    printed = console(stderr=arguments.json == "-")
    render(survey, printed, short=arguments.quiet)
    printed.print(f"{os.path.relpath(survey.out / INDEX)} shows all", markup=False)
    if arguments.json is not None:
        write_json(survey.to_dict(), arguments.json)


class _Stopping:
    """Ends the work that it surrounds at Ctrl-C or SIGTERM, and lets what follows be done.

    Attributes:
        signal: The signal that came, if one did.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> _Stopping:
        def note(number: int, _frame: FrameType | None) -> None:
            if self.signal is None:
                self.signal = number
                raise KeyboardInterrupt

        for each in (signal.SIGINT, signal.SIGTERM):
            self._open.callback(signal.signal, each, signal.signal(each, note))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        self._open.close()
        return kind is KeyboardInterrupt and self.signal is not None


class _Progress:
    """Shows on standard error each subject as it ends, above a bar where there is a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        from theodolite.console import console

        self._quiet = quiet
        self._console: Console = console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("auditing", total=None)

    def __enter__(self) -> _Progress:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def tell(self, line: Line, done: int, planned: int) -> None:
        """Show the subject of a line, and how many have ended."""
        from theodolite.survey_table import row

        self._bar.update(self._task, completed=done, total=planned)
        if not self._quiet:
            self._console.print(row(line), soft_wrap=True)
