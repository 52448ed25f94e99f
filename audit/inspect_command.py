"""Draw the anatomy of a model, measured from its numbers.

Examples:
  theodolite inspect
  theodolite inspect my_gpt.py:GPT --set vocab=74
  theodolite inspect hf:gemma2 --json anatomy.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from theodolite.settings import project_settings
from theodolite.subject_arguments import add_subject_arguments, subject_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_subject_arguments(parser)
    parser.add_argument("--json", metavar="FILE", help="write the anatomy as JSON (- for stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Measure the subject, show and write its anatomy; return the exit status."""
    from theodolite.anatomy_table import render  # imports torch, which --help can do without
    from theodolite.audit_command import write_json
    from theodolite.inspection import inspect

    anatomy = inspect(**subject_of(arguments, project_settings(Path.cwd())))
    if arguments.json is not None:
        write_json(anatomy.to_dict(), arguments.json)
    if arguments.json != "-":
        render(anatomy, Console())
    return 0
