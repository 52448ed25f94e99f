"""Known faults in known-good models, each audited: what was seen, and by which checks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

import theodolite
from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.repairs.evidence import causes_shown
from theodolite.fleet import Fleet
from theodolite.properties.mutants import Mutant, load_hosts, load_mutants, pairs
from theodolite.properties.mutants.hosts import AnyHost
from theodolite.report import Report
from theodolite.run import audit

SCHEMA = "theodolite-mutants/1"


@dataclass(frozen=True)
class Pair:
    """A fault's name, None for no fault at all, and the name of the model that it is put into."""

    mutant: str | None
    host: str


def planned(
    names: Sequence[str] = (),
    host_names: Sequence[str] = (),
    components: Sequence[str] = (),
    *,
    once: bool = False,
) -> list[Pair]:
    """The pairs to try: every host without a fault first, then each fault in each of its hosts.

    Args:
        names: Faults to try; none for all.
        host_names: Models to try them in; none for all that can be had here.
        components: Components whose faults to try; none for all.
        once: Try each fault in one of its hosts only, the hosts taking turns.
    """
    wanted = [
        Pair(mutant.name, host.name)
        for mutant, host in pairs()
        if (not names or mutant.name in names)
        and (not host_names or host.name in host_names)
        and (not components or mutant.component in components)
    ]
    if once:
        tried: dict[str | None, list[Pair]] = {}
        for pair in wanted:
            tried.setdefault(pair.mutant, []).append(pair)
        wanted = [places[turn % len(places)] for turn, places in enumerate(tried.values())]
    return [*(Pair(None, host) for host in dict.fromkeys(pair.host for pair in wanted)), *wanted]


def describe(plan: Sequence[Pair]) -> dict[str, Any]:
    """The document that trials of `plan` go into: what is tried, and no trial yet."""
    faults = {mutant.name: mutant for mutant in load_mutants()}
    return {
        "schema": SCHEMA,
        "version": theodolite.__version__,
        "hosts": list(dict.fromkeys(pair.host for pair in plan)),
        "mutants": [
            {
                "name": name,
                "component": faults[name].component,
                "claims": list(faults[name].claims),
                "fault": faults[name].fault,
                "source": faults[name].source,
                "equivalent": faults[name].equivalent,
            }
            for name in dict.fromkeys(pair.mutant for pair in plan if pair.mutant is not None)
        ],
        "trials": [],
    }


def run_trials(plan: Sequence[Pair], fleet: Fleet) -> Iterator[dict[str, Any]]:
    """Audit every pair in processes apart, as many at a time as `fleet` has; yield each as it ends.

    A pair that ends its process (a segmentation fault, say) has the verdict "error"; the others
    go on in a new one. Closing the iterator early leaves the pairs that have not ended.

    Yields:
        {"mutant", "host", "verdict", "checks": check id → symptom, "shown": [cause that the
        numbers show], "errors": [message], "passes", "seconds"}; see
        `theodolite.diagnosis.symptom_of` for symptoms.
    """
    for ended in fleet.each(_try, plan):
        if ended.result is not None:
            yield ended.result
        else:
            yield _told(ended.task, Report(ended.task.host, error=ended.lost), 0.0)


def _try(pair: Pair) -> dict[str, Any]:
    torch.set_num_threads(1)
    mutant, host = _known()[pair]
    began = time.perf_counter()
    shown: list[str] = []
    with nullcontext() if mutant is None else mutant.applied(host):
        try:
            subject = host.subject(mutant)
            report = audit(
                subject,
                budget="standard" if mutant is None else mutant.budget,
                strict=True,
                prove=False,
            )
            shown = causes_shown(subject) if report.symptoms else []
        except (SubjectError, LookupError) as error:
            report = Report(host.name, error=str(error))
    return _told(pair, report, time.perf_counter() - began, shown)


def _told(pair: Pair, report: Report, seconds: float, shown: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "mutant": pair.mutant,
        "host": pair.host,
        "verdict": report.verdict,
        "checks": report.symptoms,
        "shown": list(shown),
        "errors": [
            *([report.error] if report.error else []),
            *(f"{c.id}: {c.message}" for c in report.checks if c.outcome == "error"),
        ],
        "passes": round(report.passes, 1),
        "seconds": round(seconds, 2),
    }


@cache
def _known() -> dict[Pair, tuple[Mutant | None, AnyHost]]:
    sound: dict[Pair, tuple[Mutant | None, AnyHost]] = {
        Pair(None, host.name): (None, host) for host in load_hosts()
    }
    return sound | {Pair(mutant.name, host.name): (mutant, host) for mutant, host in pairs()}
