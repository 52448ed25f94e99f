"""Draw the anatomy of a model, measured from its numbers.

Examples:
  theodolite inspect
  theodolite inspect my_gpt.py:GPT --set vocab=74
  theodolite inspect hf:gemma2 --json anatomy.json
"""

from __future__ import annotations

import argparse

from theodolite.arguments import Parser
from theodolite.outputs import require_files, write_json
from theodolite.subject_arguments import add_subject_arguments, complete_from_project, subject_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_subject_arguments(parser)
    parser.add_argument("--json", metavar="FILE", help="write the anatomy as JSON (- for stdout)")


def complete(parser: Parser) -> None:
    """Take defaults for what concerns the subject from the project's pyproject.toml."""
    complete_from_project(parser, every=False)


def run(arguments: argparse.Namespace) -> int:
    """Measure the subject, show and write its anatomy; return the exit status."""
    named = subject_of(arguments)
    require_files({"--json": arguments.json})
    from theodolite.anatomy_table import render
    from theodolite.console import console
    from theodolite.inspection import inspect

    anatomy = inspect(**named)
    if arguments.json is not None:
        write_json(anatomy.to_dict(), arguments.json)
    if arguments.json != "-":
        render(anatomy, console())
    return 0
