"""The arguments by which every command names a subject."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any

from theodolite.arguments import Parser, seconds
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.settings import parse_settings
from theodolite.settings import project_defaults, project_settings

LIMIT = 60.0
"""Seconds that one forward may take."""


def add_subject_arguments(parser: argparse.ArgumentParser) -> None:
    """Add SUBJECT and what says how to build, call and limit it."""
    parser.add_argument(
        "subject",
        nargs="?",
        default="reference",
        metavar="SUBJECT",
        help="reference (the default), FILE.py:NAME, package.module:NAME, hf:NAME or a folder",
    )
    add_building_arguments(parser)


def add_building_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says how to build, call and limit a subject, but for its name."""
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
        help="what is known of the model (scale, window, longest ...); an unknown key lists all",
    )
    parser.add_argument(
        "--as-configured",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="build at the size of the class's own defaults",
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="weights for a subject from code: safetensors, or what torch saved of a state_dict",
    )
    parser.add_argument(
        "--time-limit",
        type=seconds,
        default=LIMIT,
        metavar="SECONDS",
        help=f"longest that one forward may take ({LIMIT:g})",
    )


def complete_from_project(parser: Parser, *, every: bool, apart: Collection[str] = ()) -> None:
    """Make what the nearest pyproject.toml says the defaults of `parser`.

    Args:
        parser: A command's parser, with the arguments of a subject.
        every: Whether every option has a key, as those of ``theodolite audit`` do; otherwise those
            of the subject have.
        apart: Destinations of arguments that take nothing from the project.

    Raises:
        UsageError: If the file says what it cannot.
    """
    from theodolite.audit_command import add_arguments

    whole, subject = Parser(add_help=False), Parser(add_help=False)
    add_arguments(whole)
    add_subject_arguments(subject)
    project = project_settings(Path.cwd())
    options = parser.options() if every else subject.options()
    options = [action for action in options if action.dest not in apart]
    parser.set_defaults(
        **project_defaults(project, options, whole.options()),
        expected_failures=project.expected_failures,
    )


def subject_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `theodolite.audit` and `theodolite.inspect` that they amount to.

    Raises:
        UsageError: If the subject is empty or a setting is none.
    """
    if not arguments.subject.strip():
        raise UsageError(
            "SUBJECT is empty: name one, as in my_gpt.py:GPT, or leave it out for the reference"
        )
    return {
        "subject": arguments.subject,
        "settings": parse_settings(arguments.settings),
        "declare": parse_settings(arguments.declare),
        "as_configured": arguments.as_configured,
        "weights": arguments.weights,
        "time_limit": arguments.time_limit,
    }
