"""How well the diagnosis does on models that it has not seen: one host left out at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.diagnosis import Diagnostician, Fault, Trial
from theodolite.knowledge import digest, faults_of, trials_of


@dataclass(frozen=True)
class Score:
    """What the diagnosis made of the faults of one host, knowing only those of the others.

    Attributes:
        host: The host that was left out.
        faults: How many of its faults were caught, hence diagnosed.
        precision: Of the faults laid to a component, the share that is its own; mean over the
            components at fault.
        recall: Of the faults of a component, the share laid to it; mean over the same.
        f1: Harmonic mean of the two of each component; mean over the same.
        known: How many of the faults were also tried, and caught, in another host.
        first: How many of these have the fault itself as their first known cause.
        among: How many have it among the causes told.
    """

    host: str
    faults: int
    precision: float
    recall: float
    f1: float
    known: int
    first: int
    among: int


def held_out(document: Mapping[str, Any]) -> list[Score]:
    """A score for each host of a document that `theodolite mutants --json` wrote.

    Hosts in which no fault was caught have none: nothing was diagnosed.
    """
    known = digest(document)
    faults, trials = faults_of(known), trials_of(known)
    tried = {trial.host for trial in trials}
    return [_score(faults, trials, host) for host in document["hosts"] if host in tried]


def _score(faults: Sequence[Fault], trials: Sequence[Trial], host: str) -> Score:
    component = {fault.name: fault.component for fault in faults}
    others = [trial for trial in trials if trial.host != host]
    learned = Diagnostician(faults, others)
    elsewhere = {trial.fault for trial in others}
    laid, known, first, among = [], 0, 0, 0
    for trial in trials:
        if trial.host != host:
            continue
        suspects = learned.suspects(trial.symptoms)
        laid.append((component[trial.fault], suspects[0].component))
        if trial.fault in elsewhere:
            causes = [suspect.cause for suspect in suspects if suspect.sentence]
            known += 1
            first += causes[:1] == [trial.fault]
            among += trial.fault in causes
    return Score(host, len(laid), *_means(laid), known, first, among)


def _means(laid: Sequence[tuple[str, str]]) -> tuple[float, float, float]:
    """Macro precision, recall and F1 of (component at fault, component accused)."""
    scores = []
    for component in {true for true, _ in laid}:
        right = sum(true == blamed == component for true, blamed in laid)
        blamed = sum(each == component for _, each in laid)
        true = sum(each == component for each, _ in laid)
        scores.append((right / max(blamed, 1), right / true, 2 * right / (blamed + true)))
    precision, recall, f1 = (sum(column) / len(scores) for column in zip(*scores, strict=True))
    return precision, recall, f1
