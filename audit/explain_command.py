"""Explain a check, a claim or a cause: what it means, an example, what to do.

Examples:
  theodolite explain causality.gradient    (a check of an audit)
  theodolite explain ROPE-4                (a claim of the ledger)
  theodolite explain mask-after-softmax    (a cause, or a known fault)
  theodolite explain mask-after-softmax --json -
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from theodolite.fixtures.errors import UsageError
from theodolite.outputs import require_files, write_json

if TYPE_CHECKING:
    from theodolite.properties.explanations import Explanation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a check (causality.gradient), a claim (ROPE-4), a cause or a known fault",
    )
    parser.add_argument("--json", metavar="FILE", help="write it as JSON (- for stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Explain a name; return the exit status."""
    from theodolite.properties.explanations import explanation_of

    require_files({"--json": arguments.json})
    explanation = explanation_of(arguments.name)
    if explanation is None:
        raise UsageError(_unknown(arguments.name))
    if arguments.json is not None:
        write_json(asdict(explanation), arguments.json)
    if arguments.json != "-":
        _print(explanation)
    return 0


def _unknown(name: str) -> str:
    from theodolite.fixtures.loading.settings import near
    from theodolite.properties.explanations import explained

    names = [each for known in explained().values() for each in known]
    groups = sorted({each.partition(".")[0] for each in explained()["check"]})
    if name in groups:
        inside = [each for each in names if each.startswith(f"{name}.")]
        return f"{name} is a group of checks: name one of {', '.join(inside)}"
    return (
        f"nothing is called {name!r}.{near(name, names)} Checks and claims are listed by "
        "`theodolite claims`, and a failed audit names causes"
    )


def _print(explanation: Explanation) -> None:
    from theodolite.console import console, print_code, print_entry, print_heading, print_text
    from theodolite.properties.explanations import sections

    printed = console()
    about = f" ({explanation.component})" if explanation.component else ""
    print_entry(printed, explanation.name, f"{explanation.says}{about}")
    for section in sections(explanation):
        print_heading(printed, section.title)
        for text in section.texts:
            print_text(printed, text)
        if section.code:
            print_code(printed, section.code)
        if section.names and not any(each.says for each in section.names):
            print_text(printed, ", ".join(each.name for each in section.names))
        else:
            for each in section.names:
                print_text(printed, f"{each.name}: {each.says}")
    if explanation.places:
        print_heading(printed, "Where it is written")
        for place in explanation.places:
            print_text(printed, place)
