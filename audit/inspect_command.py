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

from theodolite.fixtures.settings import parse_settings
from theodolite.settings import project_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "subject",
        nargs="?",
        metavar="SUBJECT",
        help="reference (the default), FILE.py:NAME, package.module:NAME, hf:NAME or hf:DIRECTORY",
    )
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="keyword argument for building the model; config.KEY=VALUE for a field of its config",
    )
    parser.add_argument(
        "--declare",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="what is known of how to call it: vocabulary, longest, layout",
    )
    parser.add_argument(
        "--as-configured", action="store_true", help="build at the size of the class's own defaults"
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="longest that one forward may take (60)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the anatomy as JSON (- for stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Measure the subject, show and write its anatomy; return the exit status."""
    from theodolite.anatomy_table import render  # imports torch, which --help can do without
    from theodolite.audit_command import write_json
    from theodolite.inspection import inspect

    project = project_settings(Path.cwd())
    anatomy = inspect(
        arguments.subject or project.subject or "reference",
        settings=parse_settings(arguments.settings),
        declare={**project.declare, **parse_settings(arguments.declare)},
        as_configured=arguments.as_configured,
        time_limit=arguments.time_limit,
    )
    if arguments.json is not None:
        write_json(anatomy.to_dict(), arguments.json)
    if arguments.json != "-":
        render(anatomy, Console())
    return 0
