"""Show that the checks can see: put known faults into known-good models and audit them.

Examples:
  theodolite mutants
  theodolite mutants no-scale mask-after-softmax --host reference
  theodolite mutants --component rope --json mutants.json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from theodolite.arguments import add_fleet_arguments
from theodolite.fixtures.errors import UsageError
from theodolite.outputs import require_files, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_FAILED = 1

_TRIAL_LIMIT = 1800.0
"""Seconds that a trial may take on a cluster before another worker is asked; most take one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "names", nargs="*", metavar="MUTANT", help="try these faults (default: all)"
    )
    parser.add_argument(
        "--host", action="append", default=[], help="put faults into this model; repeatable"
    )
    parser.add_argument(
        "--component", action="append", default=[], help="try the faults of this part; repeatable"
    )
    add_fleet_arguments(parser)
    parser.add_argument(
        "--once", action="store_true", help="try each fault in one model only, the models in turn"
    )
    parser.add_argument("--list", action="store_true", help="only list the faults")
    parser.add_argument("--json", metavar="FILE", help="write the trials as JSON (- for stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Try the faults, show what caught each; 1 if one escapes or a sound model is accused."""
    require_files({"--json": arguments.json})
    from theodolite.console import console
    from theodolite.fixtures.loading.settings import near
    from theodolite.fleet import fleet_of
    from theodolite.kill_matrix import survivors
    from theodolite.properties.mutants import left_out, load_hosts, load_mutants
    from theodolite.trials import describe, planned, run_trials  # imports torch

    mutants = load_mutants()
    for given, known, what in (
        (arguments.names, [mutant.name for mutant in mutants], "mutant"),
        (arguments.host, [host.name for host in load_hosts()], "host"),
        (arguments.component, sorted({mutant.component for mutant in mutants}), "component"),
    ):
        strange = [name for name in given if name not in known]
        if strange:
            there = (
                ", ".join(known) if len(known) < 60 else "`theodolite mutants --list` shows them"
            )
            raise UsageError(
                f"no {what} is called {strange[0]!r}; there are: {there}.{near(strange[0], known)}"
            )
    plan = planned(arguments.names, arguments.host, arguments.component, once=arguments.once)
    if not plan:
        raise UsageError("none of these faults can be put into such a model: leave out --host")
    printed = console(stderr=arguments.json == "-")
    for sentence in left_out():
        printed.print(f"[yellow]{sentence}[/yellow]")
    document = describe(plan)
    stopped = False
    if arguments.list:
        _list(document, printed)
    else:
        fleet = fleet_of(arguments.jobs, arguments.dask, _TRIAL_LIMIT)
        stopped = not _fill(document, run_trials(plan, fleet), len(plan))
        document["trials"].sort(key=lambda trial: (trial["host"], trial["mutant"] or ""))
        _show(document, printed)
    if arguments.json is not None:
        write_json(document, arguments.json)
    if stopped:
        raise KeyboardInterrupt
    return _FAILED if survivors(document) else 0


def _fill(document: dict[str, Any], trials: Iterator[dict[str, Any]], planned: int) -> bool:
    """Add the trials to the document as they end; False if Ctrl-C came before the last one."""
    with _progress() as bar:
        task = bar.add_task("auditing", total=planned)
        try:
            for trial in trials:
                document["trials"].append(trial)
                bar.advance(task)
        except KeyboardInterrupt:
            bar.console.print(f"{len(document['trials'])} of {planned} were tried")
            return False
    return True


def _progress() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from theodolite.console import console

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console(stderr=True),
        transient=True,
    )


def _list(document: dict[str, Any], printed: Console) -> None:
    from theodolite.console import print_entry

    for mutant in document["mutants"]:
        print_entry(printed, mutant["name"], mutant["component"], mutant["fault"])


def _show(document: dict[str, Any], printed: Console) -> None:
    from theodolite.console import print_entry
    from theodolite.kill_matrix import survivors, totals

    mutants = {mutant["name"]: mutant for mutant in document["mutants"]}
    for trial in document["trials"]:
        name = trial["mutant"] or "no fault"
        said = _caught(trial, mutants.get(trial["mutant"]))
        print_entry(printed, name, f"in {trial['host']}", said)
    for host, count in totals(document).items():
        printed.print(
            f"{host}: {count['caught']} of {count['faults']} faults caught, "
            f"{count['named']} named; "
            f"{count['passed']} of {count['equivalent']} models without a fault passed"
        )
    for name, host in survivors(document):
        printed.print(f"[red]wrong: {name} in {host}[/red]")


def _caught(trial: dict[str, Any], mutant: dict[str, Any] | None) -> str:
    """What an audit made of a fault, or of a model without one."""
    from theodolite.kill_matrix import caught, named

    if mutant is None or mutant["equivalent"]:
        verdict: str = trial["verdict"]
        return verdict if verdict != "pass" else "caught by nothing, and rightly so"
    checks = caught(trial)
    if not checks:
        return f"{mutant['component']}: caught by NOTHING"
    mark = "" if named(trial, mutant["component"]) else " (not named)"
    more = f" and {len(checks) - 4} more" if len(checks) > 4 else ""
    return f"{mutant['component']}{mark}: caught by {', '.join(checks[:4])}{more}"
