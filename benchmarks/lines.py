"""How often an audit names the line that is wrong, and how long its answer is.

Every fault that is put into a model's text changes lines that are known. Each such model is
audited, and the line of its first cause is held against them.

    python benchmarks/lines.py                 every fault in every text
    python benchmarks/lines.py --every 10      each tenth
    python benchmarks/lines.py by_hand         those of one text
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import theodolite
from theodolite.fixtures.judging.source_line import enclosing
from theodolite.properties.mutants import load_mutants
from theodolite.properties.mutants.hosts.text import LIBRARY_TEXTS, WRITTEN, TextHost
from theodolite.terminal import lines_of

NEAR = 2
"""Lines beside a changed one that still count: a statement may run over several."""


@dataclass(frozen=True)
class Outcome:
    """What an audit of one faulty text named.

    Attributes:
        name: The fault, in its text.
        near: Whether the first cause stands at a changed line, or at most `NEAR` beside it.
        inside: Whether it stands in a changed function.
        lines: Lines of the answer on a terminal of 100 columns.
        causes: How many causes were told.
        said: The line that was named.
    """

    name: str
    near: bool
    inside: bool
    lines: int
    causes: int
    said: str


def trials() -> Iterator[tuple[TextHost, str]]:
    """Every fault of a text that changes a line of it."""
    faults = {mutant.name for mutant in load_mutants() if mutant.equivalent is None}
    for host in (*WRITTEN, *LIBRARY_TEXTS):
        for name, change in host.changes.items():
            if name in faults and change.hunks and host.obstacle(name) is None:
                yield host, name


def changed_lines(host: TextHost, name: str, text: str) -> list[int]:
    """The lines of a faulty text that are not so in the right one; of a gap, the one behind it."""
    right = host.text(**host.changes[name].settings).splitlines()
    parts = SequenceMatcher(None, right, text.splitlines(), autojunk=False).get_opcodes()
    spans = [(start, end) for tag, _, _, start, end in parts if tag != "equal"]
    return [line + 1 for start, end in spans for line in range(start, max(end, start + 1))]


def outcome_of(host: TextHost, name: str, folder: Path, **how: object) -> Outcome | None:
    """What an audit of the text with the fault names; None where it finds nothing."""
    spec = host.write(folder, name)
    file = spec.rpartition(":")[0]
    changed = changed_lines(host, name, Path(file).read_text(encoding="utf-8"))
    report = theodolite.audit(spec, strict=True, **host.options(name), **how)
    if not report.causes:
        return None
    source = report.causes[0].source or {"file": "", "line": 0, "function": ""}
    here = Path(source["file"]).resolve() == Path(file).resolve()
    near = here and any(abs(source["line"] - line) <= NEAR for line in changed)
    inside = here and source["function"] in {enclosing(file, line) for line in changed}
    return Outcome(
        f"{name} in {host.name}",
        near,
        near or inside,
        len(lines_of(report, 100)),
        len(report.causes),
        f"{source['line']} in {source['function']}",
    )


def main() -> None:
    """Audit them, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("hosts", nargs="*")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    chosen = [t for t in trials() if not arguments.hosts or t[0].name in arguments.hosts]
    for host, name in chosen[:: arguments.every]:
        with tempfile.TemporaryDirectory() as folder:
            outcome = outcome_of(host, name, Path(folder), budget="quick", prove=False)
        if outcome is not None:
            found.append(outcome)
            mark = "line" if outcome.near else "function" if outcome.inside else "elsewhere"
            print(f"{mark:<9}  {outcome.lines:>3} lines  {outcome.name}: {outcome.said}")
    count = max(len(found), 1)
    near, inside = (sum(getattr(o, what) for o in found) for what in ("near", "inside"))
    print(f"{len(found)} faults: the line {near / count:.0%}, the function {inside / count:.0%}")


if __name__ == "__main__":
    main()
