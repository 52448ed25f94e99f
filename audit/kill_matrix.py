"""What the trials of known faults come to, in numbers and as a page (docs/kill-matrix.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from theodolite.diagnosis import accused
from theodolite.held_out import held_out, unseen_faults

_HEAD = """# The kill matrix

Known faults, each put into known-good models and audited; made by `tox -e docs` from the trials
of `theodolite mutants --json`, do not edit. A fault is *caught* if a check fails, and
*named* if a check that fails accuses the component that is at fault. A change that is no fault
(*equivalent*) must pass, and so must every model without a fault.
"""

_LEGEND = (
    "How many checks caught each, in each host; `!` where none of them accuses the component at "
    "fault, – where the host has no such place or it was not tried."
)

_DIAGNOSIS = (
    "Each host is left out in turn, and its faults are diagnosed with what the others taught. "
    "Component is how many were laid to their own component first. "
    "Precision, recall and F1 of the accused component are means over the components at fault; of "
    "the faults that were tried in another host too, how many are the first known cause, and how "
    "many are among the causes told."
)


def caught(trial: Mapping[str, Any]) -> list[str]:
    """The checks that failed in a trial."""
    return [check for check, symptom in trial["checks"].items() if symptom]


def named(trial: Mapping[str, Any], component: str) -> bool:
    """Whether a failed check of the trial accuses `component`."""
    return any(accused(symptom) == component for symptom in trial["checks"].values() if symptom)


def totals(document: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """For each host: {"faults", "caught", "named", "equivalent", "passed"}."""
    mutants = {mutant["name"]: mutant for mutant in document["mutants"]}
    counts: dict[str, Counter[str]] = {host: Counter() for host in document["hosts"]}
    for trial in document["trials"]:
        count, mutant = counts[trial["host"]], mutants.get(trial["mutant"])
        if mutant is None or mutant["equivalent"]:
            count["equivalent"] += 1
            count["passed"] += trial["verdict"] == "pass"
        else:
            count["faults"] += 1
            count["caught"] += bool(caught(trial))
            count["named"] += named(trial, mutant["component"])
    keys = ("faults", "caught", "named", "equivalent", "passed")
    return {host: {key: count[key] for key in keys} for host, count in counts.items()}


def survivors(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The faults that no check caught, and the changes without a fault that one did, with hosts."""
    no_fault = {None, *(m["name"] for m in document["mutants"] if m["equivalent"])}
    return [
        (str(trial["mutant"] or "no fault"), trial["host"])
        for trial in document["trials"]
        if (trial["verdict"] != "pass" if trial["mutant"] in no_fault else not caught(trial))
    ]


def page(document: Mapping[str, Any]) -> str:
    """The whole page, in Markdown."""
    hosts: Sequence[str] = document["hosts"]
    trials = {(trial["mutant"], trial["host"]): trial for trial in document["trials"]}
    return "\n".join(
        [
            _HEAD,
            f"{len(document['trials'])} models were audited.",
            "",
            *_table(
                ("host", "faults", "caught", "named", "without a fault", "passed"),
                ((host, *map(str, count.values())) for host, count in totals(document).items()),
            ),
            "## Diagnosis of models that it has not seen",
            "",
            _DIAGNOSIS,
            "",
            *_table(
                (
                    "host",
                    "faults",
                    "component",
                    "precision",
                    "recall",
                    "F1",
                    "tried elsewhere",
                    "first",
                    "told",
                ),
                _held_out_rows(document),
            ),
            "## Diagnosis of faults that it has not seen",
            "",
            *_unseen_lines(document),
            "",
            "## Faults",
            "",
            _LEGEND,
            "",
            *_table(
                ("fault", "component", *hosts, "what is done"), _fault_rows(document, trials, hosts)
            ),
            "## No faults",
            "",
            *_table(
                ("change", *hosts, "why it is none"), _equivalent_rows(document, trials, hosts)
            ),
            "## Checks",
            "",
            "How many of the faults each check catches, in any host, and the first of them.",
            "",
            *_table(("check", "catches", "among them"), _check_rows(document)),
        ]
    )


def _held_out_rows(document: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    for score in held_out(document):
        means = (f"{value:.2f}" for value in (score.precision, score.recall, score.f1))
        counts = (score.known, score.first, score.among)
        yield (score.host, str(score.faults), str(score.component), *means, *map(str, counts))


def _unseen_lines(document: Mapping[str, Any]) -> Iterable[str]:
    found = unseen_faults(document)
    yield (
        "A tenth of the faults is left out in turn, with all their trials, and each is diagnosed "
        f"in one host: of {found.trials} trials, {found.component} are laid to the component at "
        "fault first. No trial tells the name of such a fault; the model's numbers may. They were "
        f"looked at in {found.read} of these trials, of which {found.component_read} are laid to "
        f"the component at fault first and {found.cause_read} told as the fault itself."
    )


def _fault_rows(
    document: Mapping[str, Any], trials: Mapping[Any, Any], hosts: Sequence[str]
) -> Iterable[Sequence[str]]:
    for mutant in sorted(document["mutants"], key=lambda m: (m["component"], m["name"])):
        if mutant["equivalent"]:
            continue
        cells = []
        for host in hosts:
            trial = trials.get((mutant["name"], host))
            mark = "" if trial is None or named(trial, mutant["component"]) else "!"
            cells.append("–" if trial is None else f"{len(caught(trial))}{mark}")
        yield (mutant["name"], mutant["component"], *cells, mutant["fault"])


def _equivalent_rows(
    document: Mapping[str, Any], trials: Mapping[Any, Any], hosts: Sequence[str]
) -> Iterable[Sequence[str]]:
    for mutant in document["mutants"]:
        if mutant["equivalent"]:
            verdicts = [
                trials.get((mutant["name"], host), {}).get("verdict", "–") for host in hosts
            ]
            yield (mutant["name"], *verdicts, mutant["equivalent"])


def _check_rows(document: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    equivalent = {mutant["name"] for mutant in document["mutants"] if mutant["equivalent"]}
    kills: dict[str, dict[str, None]] = {}
    for trial in document["trials"]:
        for check, symptom in trial["checks"].items():
            faults = kills.setdefault(check, {})
            if symptom and trial["mutant"] is not None and trial["mutant"] not in equivalent:
                faults[trial["mutant"]] = None
    for check, faults in sorted(kills.items(), key=lambda item: (-len(item[1]), item[0])):
        yield (check, str(len(faults)), ", ".join(list(faults)[:4]))


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heading, ["---"] * len(heading), *rows]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]
