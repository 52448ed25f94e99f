"""How well the diagnosis does on what it has not seen: hosts left out, and faults left out.

Where a trial says which causes the subject's numbers show (see `theodolite.fixtures.repairs`), the
likeliest of those is told first, as an audit does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.diagnosis import Diagnostician, Fault, Suspect, Trial
from theodolite.knowledge import digest, faults_of, trials_of


@dataclass(frozen=True)
class Score:
    """What the diagnosis made of the faults of one host, knowing only those of the others.

    Attributes:
        host: The host that was left out.
        faults: How many of its faults were caught, hence diagnosed.
        component: How many of them were laid to their own component first.
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
    component: int
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


@dataclass(frozen=True)
class Unseen:
    """What the diagnosis made of faults that stand in no trial that it knows.

    Attributes:
        trials: How many trials of such faults were diagnosed.
        component: How many were laid to their own component first.
        read: Of how many of them it was looked at which causes their numbers show.
        component_read: How many of those were laid to their own component first.
        cause_read: How many of those were told as the fault itself first: by its numbers alone.
    """

    trials: int
    component: int
    read: int
    component_read: int
    cause_read: int


_FOLDS = 10
"""Parts into which the faults are cut, each left out in turn."""


def unseen_faults(document: Mapping[str, Any]) -> Unseen:
    """Each fault diagnosed, in one host, by what other faults taught."""
    known = digest(document)
    faults, trials = faults_of(known), trials_of(known)
    component = {fault.name: fault.component for fault in faults}
    told: list[tuple[Trial, str, str | None]] = []
    for fold in range(_FOLDS):
        left_out = {fault.name for fault in faults[fold::_FOLDS]}
        learned = Diagnostician(faults, [t for t in trials if t.fault not in left_out])
        told += [(t, *_first(learned, t, component)) for t in _once_each(trials, left_out)]
    read = [each for each in told if each[0].shown is not None]
    return Unseen(
        len(told),
        sum(component[trial.fault] == laid for trial, laid, _ in told),
        len(read),
        sum(component[trial.fault] == laid for trial, laid, _ in read),
        sum(trial.fault == cause for trial, _, cause in read),
    )


def _once_each(trials: Sequence[Trial], faults: Collection[str]) -> list[Trial]:
    """One trial of each of the faults, the hosts taking turns; of those that were read, if any."""
    tried: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.fault in faults:
            tried.setdefault(trial.fault, []).append(trial)
    read = {name: [t for t in own if t.shown is not None] or own for name, own in tried.items()}
    return [own[turn % len(own)] for turn, own in enumerate(read.values())]


def _first(
    learned: Diagnostician,
    trial: Trial,
    component: Mapping[str, str],
    suspects: Sequence[Suspect] | None = None,
) -> tuple[str, str | None]:
    """The component and the cause that are told first."""
    first = (suspects or learned.suspects(trial.symptoms))[0]
    shown = [cause for cause in trial.shown or () if cause in component]
    if first.cause in shown or not shown:
        return first.component, first.cause
    scores = {fault.name: score for fault, score in learned.ranking(trial.symptoms)}
    cause = max(shown, key=lambda name: scores.get(name, 0.0))
    return component[cause], cause


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
        accused, cause = _first(learned, trial, component, suspects)
        laid.append((component[trial.fault], accused))
        if trial.fault in elsewhere:
            causes = [suspect.cause for suspect in suspects if suspect.sentence]
            by_numbers = bool(trial.shown)
            known += 1
            first += (cause if by_numbers else next(iter(causes), None)) == trial.fault
            among += trial.fault in {*causes, cause}
    right = sum(true == blamed for true, blamed in laid)
    return Score(host, len(laid), right, *_means(laid), known, first, among)


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
