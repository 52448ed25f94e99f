"""What the trials of known faults taught: kept in `known_faults.json`, read by every diagnosis.

theodolite mutants --json mutants.json
python docs/regenerate.py --trials mutants.json

The file keeps every trial, so that docs/kill-matrix.md is made of it, too; a diagnosis learns from
those of faults that some check caught.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from theodolite.diagnosis import PASSED, Diagnostician, Fault, Trial

FILE = "known_faults.json"
SCHEMA = "theodolite-known-faults/2"


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
    """The faults of a digest that some check caught."""
    caught = {trial["fault"] for trial in document["trials"] if trial["failed"]}
    return [
        Fault(fault["name"], fault["component"], fault["sentence"])
        for fault in document["faults"]
        if fault["equivalent"] is None and fault["name"] in caught
    ]


def trials_of(document: Mapping[str, Any]) -> list[Trial]:
    """The trials of a digest in which a check caught a fault."""
    known = {fault.name for fault in faults_of(document)}
    return [
        Trial(
            trial["fault"],
            trial["host"],
            {check: trial["failed"].get(check, PASSED) for check in _judged(document, trial)},
            None if trial.get("shown") is None else tuple(trial["shown"]),
        )
        for trial in document["trials"]
        if trial["fault"] in known and trial["failed"]
    ]


def digest(document: Mapping[str, Any]) -> dict[str, Any]:
    """What is worth keeping of a document that `theodolite mutants --json` wrote."""
    trials = document["trials"]
    checks = sorted({check for trial in trials for check in trial["checks"]})
    return {
        "schema": SCHEMA,
        "version": document["version"],
        "hosts": list(document["hosts"]),
        "checks": checks,
        "faults": [
            {
                "name": mutant["name"],
                "component": mutant["component"],
                "sentence": mutant["fault"],
                "equivalent": mutant["equivalent"],
            }
            for mutant in document["mutants"]
        ],
        "trials": [
            {
                "fault": trial["mutant"],
                "host": trial["host"],
                "verdict": trial["verdict"],
                "failed": {check: said for check, said in trial["checks"].items() if said},
                "absent": [check for check in checks if check not in trial["checks"]],
                **_shown(trial),
            }
            for trial in trials
        ],
    }


def expanded(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The document that a digest was made of, without what it does not keep."""
    return {
        "version": kept["version"],
        "hosts": list(kept["hosts"]),
        "mutants": [{**fault, "fault": fault["sentence"]} for fault in kept["faults"]],
        "trials": [
            {
                "mutant": trial["fault"],
                "host": trial["host"],
                "verdict": trial["verdict"],
                "checks": {
                    check: trial["failed"].get(check, PASSED) for check in _judged(kept, trial)
                },
                **_shown(trial),
            }
            for trial in kept["trials"]
        ],
    }


def updated(known: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """`known` with the trials of a document beside it, which replace those of the same pairs.

    Faults and hosts that the document does not know, though all are planned in it, are kept; the
    faults that there are no more are left out by whoever knows them (see docs/regenerate.py).
    """
    tried = {(trial["mutant"], trial["host"]) for trial in document["trials"]}
    kept = [t for t in known["trials"] if (t["mutant"], t["host"]) not in tried]
    described = {each["name"]: each for each in [*known["mutants"], *document["mutants"]]}
    return {
        "version": document["version"],
        "hosts": list(dict.fromkeys([*known["hosts"], *document["hosts"]])),
        "mutants": list(described.values()),
        "trials": [*kept, *document["trials"]],
    }


def _shown(trial: Mapping[str, Any]) -> dict[str, list[str]]:
    """Which causes the numbers of a trial showed, where that was looked at."""
    return {} if trial.get("shown") is None else {"shown": list(trial["shown"])}


def _judged(kept: Mapping[str, Any], trial: Mapping[str, Any]) -> list[str]:
    absent = set(trial["absent"])
    return [check for check in kept["checks"] if check not in absent]


def as_lines(document: Mapping[str, Any]) -> str:
    """JSON with one fault and one trial a line, so that a change of one shows as one."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n".join("  " + json.dumps(each, ensure_ascii=False) for each in value)
            parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
