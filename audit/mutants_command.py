"""Show that the checks can see: put known faults into known-good models and audit them.

Examples:
  theodolite mutants
  theodolite mutants no-scale mask-after-softmax --host reference
  theodolite mutants --component rope --json mutants.json
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from theodolite.fixtures.errors import UsageError

_FAILED = 1


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
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="audits at a time"
    )
    parser.add_argument(
        "--once", action="store_true", help="try each fault in one model only, the models in turn"
    )
    parser.add_argument("--list", action="store_true", help="only list the faults")
    parser.add_argument("--json", metavar="FILE", help="write the trials as JSON (- for stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Try the faults, show what caught each; 1 if one escapes or a sound model is accused."""
    from theodolite.audit_command import write_json
    from theodolite.kill_matrix import survivors
    from theodolite.properties.mutants import left_out, load_hosts, load_mutants
    from theodolite.trials import describe, planned, run_trials  # imports torch

    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: give 1 or more")
    mutants = load_mutants()
    for given, known, what in (
        (arguments.names, [mutant.name for mutant in mutants], "mutant"),
        (arguments.host, [host.name for host in load_hosts()], "host"),
        (arguments.component, sorted({mutant.component for mutant in mutants}), "component"),
    ):
        strange = [name for name in given if name not in known]
        if strange:
            near = ", ".join(known) if len(known) < 60 else "theodolite mutants --list shows them"
            raise UsageError(f"no {what} is called {strange[0]!r}; there are: {near}")
    plan = planned(arguments.names, arguments.host, arguments.component, once=arguments.once)
    if not plan:
        raise UsageError("none of these faults can be put into such a model: leave out --host")
    console = Console(stderr=arguments.json == "-")
    for sentence in left_out():
        console.print(f"[yellow]{sentence}[/yellow]")
    document = describe(plan)
    stopped = False
    if arguments.list:
        _list(document, console)
    else:
        stopped = not _fill(document, run_trials(plan, jobs=arguments.jobs), len(plan))
        document["trials"].sort(key=lambda trial: (trial["host"], trial["mutant"] or ""))
        _show(document, console)
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
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _list(document: dict[str, Any], console: Console) -> None:
    table = Table("mutant", "component", "what is done")
    for mutant in document["mutants"]:
        table.add_row(mutant["name"], mutant["component"], mutant["fault"])
    console.print(table)


def _show(document: dict[str, Any], console: Console) -> None:
    from theodolite.kill_matrix import caught, named, survivors, totals

    mutants = {mutant["name"]: mutant for mutant in document["mutants"]}
    table = Table("mutant", "host", "component", "caught by", show_lines=False)
    for trial in document["trials"]:
        mutant = mutants.get(trial["mutant"])
        if mutant is None or mutant["equivalent"]:
            verdict = trial["verdict"] if trial["verdict"] != "pass" else "nothing, and rightly so"
            table.add_row(trial["mutant"] or "no fault", trial["host"], "", verdict)
            continue
        checks = caught(trial)
        said = f"{len(checks)}: {', '.join(checks[:4])}" if checks else "NOTHING"
        mark = "" if named(trial, mutant["component"]) else " (not named)"
        table.add_row(mutant["name"], trial["host"], mutant["component"] + mark, said)
    console.print(table)
    for host, count in totals(document).items():
        console.print(
            f"{host}: {count['caught']} of {count['faults']} faults caught, "
            f"{count['named']} named; "
            f"{count['passed']} of {count['equivalent']} models without a fault passed"
        )
    for name, host in survivors(document):
        console.print(f"[red]wrong: {name} in {host}[/red]")
