"""What the trials of known faults taught: kept in `known_faults.json`, read by every diagnosis.

theodolite mutants --json mutants.json
python -m theodolite.knowledge mutants.json > audit/known_faults.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from theodolite.diagnosis import PASSED, Diagnostician, Fault, Trial

FILE = "known_faults.json"
SCHEMA = "theodolite-known-faults/1"


@cache
def known_faults() -> Diagnostician:
    """A diagnostician that knows the faults of `known_faults.json`."""
    return Diagnostician(faults_of(_document()), trials_of(_document()))


def caught_by(check: str) -> list[str]:
    """The known faults that the check has caught in any host, in the order of the trials."""
    trials = _document()["trials"]
    return list(dict.fromkeys(trial["fault"] for trial in trials if check in trial["failed"]))


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        files("theodolite").joinpath(FILE).read_text(encoding="utf-8")
    )
    return document


def faults_of(document: Mapping[str, Any]) -> list[Fault]:
    """The faults of a digest."""
    return [Fault(**fault) for fault in document["faults"]]


def trials_of(document: Mapping[str, Any]) -> list[Trial]:
    """The trials of a digest."""
    return [
        Trial(
            trial["fault"],
            trial["host"],
            {
                check: trial["failed"].get(check, PASSED)
                for check in document["checks"]
                if check not in trial["absent"]
            },
        )
        for trial in document["trials"]
    ]


def digest(document: Mapping[str, Any]) -> dict[str, Any]:
    """What is worth keeping of a document that `theodolite mutants --json` wrote.

    Changes that are no fault and faults that no check caught are left out.
    """
    faults = {mutant["name"]: mutant for mutant in document["mutants"] if not mutant["equivalent"]}
    trials = [t for t in document["trials"] if t["mutant"] in faults and any(t["checks"].values())]
    checks = sorted({check for trial in trials for check in trial["checks"]})
    tried = {trial["mutant"] for trial in trials}
    return {
        "schema": SCHEMA,
        "version": document["version"],
        "checks": checks,
        "faults": [
            {"name": name, "component": mutant["component"], "sentence": mutant["fault"]}
            for name, mutant in faults.items()
            if name in tried
        ],
        "trials": [
            {
                "fault": trial["mutant"],
                "host": trial["host"],
                "failed": {check: said for check, said in trial["checks"].items() if said},
                "absent": [check for check in checks if check not in trial["checks"]],
            }
            for trial in trials
        ],
    }


def _as_lines(document: Mapping[str, Any]) -> str:
    """JSON with one fault and one trial a line, so that a change of one shows as one."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n".join("  " + json.dumps(each, ensure_ascii=False) for each in value)
            parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    read = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stdout.write(_as_lines(digest(read)))
