"""Make every generated page again; exit with 1 where one was stale.

python docs/regenerate.py
python docs/regenerate.py --zoo zoo.jsonl --trials mutants.json --mutation results.json

The second takes in what new runs left: a trial that was run again replaces the earlier one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pages import mutation, zoo

from theodolite import kill_matrix, knowledge
from theodolite.properties import ledger, pages
from theodolite.properties.mutants import load_mutants

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCS = Path(__file__).parent
KNOWN = DOCS.parent / "audit" / knowledge.FILE
MUTATION = DOCS.parent / "tests" / "mutation"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _zoo() -> str:
    lines = _text(DOCS / "data" / "zoo.jsonl").splitlines()
    return zoo.page([json.loads(line) for line in lines])


def _trials() -> dict[str, Any]:
    return knowledge.expanded(json.loads(_text(KNOWN)))


def _mutation() -> str:
    results: dict[str, Any] = json.loads(_text(DOCS / "data" / "mutation.json"))
    reasons = tomllib.loads(_text(MUTATION / "survivors.toml"))["survivor"]
    return mutation.page(results, reasons, tomllib.loads(_text(MUTATION / "suites.toml")))


PAGES: dict[str, Callable[[], str]] = {
    "causes.md": pages.causes_page,
    "checks.md": pages.checks_page,
    "claims.md": ledger.render_markdown,
    "kill-matrix.md": lambda: kill_matrix.page(_trials()),
    "mutation.md": _mutation,
    "zoo.md": _zoo,
}


def stale() -> dict[str, str]:
    """Of the pages that are not what they are made from: name → what they should be."""
    made = {name: make() for name, make in PAGES.items()}
    return {
        name: text
        for name, text in made.items()
        if not (DOCS / name).exists() or _text(DOCS / name) != text
    }


def take_in(zoo_run: Path | None, trials_run: Path | None, mutation_run: Path | None) -> None:
    """Keep what runs of the zoo, of known faults, and of the mutation tool left."""
    if zoo_run is not None:
        reports = map(json.loads, _text(zoo_run).splitlines())
        lines = (zoo.line_of(report, report["package"], report["name"]) for report in reports)
        last = {(line["package"], line["model"]): line for line in lines}  # of each model
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in last.values())
        (DOCS / "data" / "zoo.jsonl").write_text(text, encoding="utf-8")
    if trials_run is not None:
        document = knowledge.updated(_trials(), json.loads(_text(trials_run)))
        there = {None, *(mutant.name for mutant in load_mutants())}
        document["trials"] = [t for t in document["trials"] if t["mutant"] in there]
        document["mutants"] = [m for m in document["mutants"] if m["name"] in there]
        KNOWN.write_text(knowledge.as_lines(knowledge.digest(document)), encoding="utf-8")
    if mutation_run is not None:
        results = json.loads(_text(mutation_run))
        text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
        (DOCS / "data" / "mutation.json").write_text(text, encoding="utf-8")


def main() -> int:
    """Write what is stale, and say so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zoo", type=Path, help="what THEODOLITE_ZOO=FILE tox -e zoo left")
    parser.add_argument("--trials", type=Path, help="what theodolite mutants --json FILE left")
    parser.add_argument("--mutation", type=Path, help="results.json of tox -e mutation")
    given = parser.parse_args()
    take_in(given.zoo, given.trials, given.mutation)
    found = stale()
    for name, text in found.items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"docs/{name} was stale and is made again: commit it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
