"""The arguments by which every command names a subject."""

from __future__ import annotations

import argparse
from typing import Any

from theodolite.fixtures.loading.settings import parse_settings
from theodolite.settings import ProjectSettings


def add_subject_arguments(parser: argparse.ArgumentParser) -> None:
    """Add SUBJECT and what says how to build, call and limit it."""
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
        help="what is known of the model (scale, window, longest ...); an unknown key lists all",
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


def subject_of(arguments: argparse.Namespace, project: ProjectSettings) -> dict[str, Any]:
    """The keyword arguments of `theodolite.audit` and `theodolite.inspect` that they amount to."""
    return {
        "subject": arguments.subject or project.subject or "reference",
        "settings": parse_settings(arguments.settings),
        "declare": {**project.declare, **parse_settings(arguments.declare)},
        "as_configured": arguments.as_configured,
        "time_limit": arguments.time_limit,
    }
