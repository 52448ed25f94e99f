"""Print the ledger: every claim, the properties that check it, the mutants that prove them.

Examples:
  theodolite claims
  theodolite claims ROPE          (one chapter, with why each claim must hold)
  theodolite claims ROPE-4        (one claim)
  theodolite claims cache.steps   (a check: where it stands, what proves it, its script)
  theodolite claims --json claims.json
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from theodolite.fixtures.errors import UsageError
from theodolite.outputs import require_files, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from theodolite.selection import AuditCheck


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="show one chapter (ROPE), claim (ROPE-4), check (cache.steps) or group of checks",
    )
    parser.add_argument("--json", metavar="FILE", help="write it as JSON (- for stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Show the ledger, a part of it, or checks; return the exit status."""
    from theodolite.properties.ledger import claims_table
    from theodolite.selection import audit_checks

    require_files({"--json": arguments.json})
    name = arguments.name
    claims = [
        claim
        for claim in claims_table()["claims"]
        if name is None or name in (claim["id"], claim["chapter"])
    ]
    checks = [
        check
        for check in audit_checks().values()
        if name is not None and f"{check.id}.".startswith(f"{name}.")
    ]
    if not claims and not checks:
        raise UsageError(_unknown(name))
    if arguments.json is not None:
        document = {"claims": claims} if claims else {"checks": [*map(_document, checks)]}
        write_json(document, arguments.json)
    if arguments.json != "-":
        _print_claims(claims, explained=name is not None)
        _print_checks(checks)
    return 0


def _unknown(name: str) -> str:
    from theodolite.fixtures.loading.settings import near
    from theodolite.properties.ledger import chapter_titles, load_ledger
    from theodolite.selection import audit_checks, groups

    claims = [claim.id for claim in load_ledger()]
    known = [*chapter_titles(), *claims, *audit_checks(), *groups()]
    return (
        f"no chapter, claim or check is called {name!r}.{near(name, known)} "
        f"Chapters are {', '.join(chapter_titles())}; groups of checks are {', '.join(groups())}"
    )


def _print_claims(claims: Sequence[dict[str, Any]], *, explained: bool) -> None:
    from theodolite.console import console, print_entry

    printed = console()
    for claim in claims:
        state = claim["state"].replace("_", " ")
        if claim["reason"]:
            state = f"{state}: {claim['reason']}"
        count = len(claim["properties"])
        proved = f"{count} {'property' if count == 1 else 'properties'}"
        if claim["mutants"]:
            proved += f", proved by {', '.join(claim['mutants'])}"
        print_entry(
            printed,
            claim["id"],
            claim["statement"],
            *([claim["why"]] if explained else []),
            *([state] if state != "checked" else []),
            *(claim["properties"] if explained else []),
            proved,
        )


def _print_checks(checks: Sequence[AuditCheck]) -> None:
    from theodolite.console import console, print_entry

    printed = console()
    for check in checks:
        said = _document(check)
        below = [
            *(f"{each['place']}  {each['name']}" for each in said["properties"]),
            *(f"{claim['id']}: {claim['statement']}" for claim in said["claims"]),
            f"proved by {', '.join(said['mutants']) or 'no mutant'}",
            f"has caught {', '.join(said['caught']) or 'no known fault'}",
            f"script from {said['script']}" if said["script"] else "no script",
        ]
        print_entry(printed, check.id, f"{check.says} ({check.component})", *below)


def _document(check: AuditCheck) -> dict[str, Any]:
    """A check as plain values: where it stands, what it judges, what proves it, its script."""
    from theodolite.knowledge import caught_by
    from theodolite.properties.ledger import load_ledger
    from theodolite.properties.source import find_mutants, find_scripts

    script = find_scripts().get(check.id)
    return {
        "id": check.id,
        "component": check.component,
        "says": check.says,
        "claims": [
            {"id": claim.id, "statement": claim.statement}
            for claim in load_ledger()
            if claim.id in check.claims
        ],
        "properties": [
            {"name": each.name.rpartition("::")[2], "place": str(each.place)}
            for each in check.properties
        ],
        "mutants": [
            mutant.name
            for mutant in find_mutants()
            if not mutant.equivalent and set(mutant.claims) & set(check.claims)
        ],
        "caught": caught_by(check.id),
        "script": None if script is None else str(script),
    }
