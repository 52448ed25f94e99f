"""Print the ledger: every claim, the properties that check it, the mutants that prove them.

Examples:
  theodolite claims
  theodolite claims ROPE          (one chapter, with why each claim must hold)
  theodolite claims --json claims.json
"""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from theodolite.fixtures.errors import UsageError
from theodolite.properties.ledger import chapter_titles, claims_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("chapter", nargs="?", metavar="CHAPTER", help="show one chapter, e.g. ROPE")
    parser.add_argument("--json", metavar="FILE", help="write the ledger as JSON (- for stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Show the ledger, or one chapter of it; return the exit status."""
    from theodolite.audit_command import write_json

    titles = chapter_titles()
    if arguments.chapter is not None and arguments.chapter not in titles:
        raise UsageError(
            f"no chapter is called {arguments.chapter!r}; there are {', '.join(titles)}"
        )
    table = claims_table()
    if arguments.chapter is not None:
        table = {"claims": [c for c in table["claims"] if c["chapter"] == arguments.chapter]}
    if arguments.json is not None:
        write_json(table, arguments.json)
    if arguments.json == "-":
        return 0
    shown = Table(show_lines=False)
    for heading in ("claim", "statement", "state", "properties", "mutants"):
        width = 40 if heading == "statement" else None
        shown.add_column(heading, overflow="fold", min_width=width)
    for claim in table["claims"]:
        state = claim["state"].replace("_", " ")
        if claim["reason"]:
            state = f"{state}: {claim['reason']}"
        shown.add_row(
            claim["id"],
            claim["statement"] if arguments.chapter is None else _explained(claim),
            state,
            str(len(claim["properties"])),
            ", ".join(claim["mutants"]),
        )
    Console().print(shown)
    return 0


def _explained(claim: dict[str, Any]) -> Text:
    return Text.assemble(claim["statement"], ("\n" + claim["why"], "dim"))
