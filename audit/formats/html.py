"""A report as one HTML page: the answer first, then pictures, anatomy, checks and scripts.

The page asks for nothing over the network, runs no program, and takes light or dark, a phone or
paper as it comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.fixtures.judging.bounds import allowed, nearness
from theodolite.pages import render
from theodolite.plots import plots_of
from theodolite.report import Check, Report, is_hazard


@dataclass(frozen=True)
class Chapter:
    """The checks of one group.

    Attributes:
        name: The group's name.
        says: How many ended how.
        state: "failed", "hazard", "passed" or "none": the worst of them.
        checks: The checks.
    """

    name: str
    says: str
    state: str
    checks: list[Check]


def write(report: Report) -> str:
    """The page."""
    from markupsafe import Markup

    return render(
        "report",
        report=report,
        chapters=_chapters(report),
        plots=[(plot, Markup(plot.svg)) for plot in plots_of(report)],
        anatomy=_anatomy(report.anatomy),
        scripts=_scripts(report),
        outcome=_outcome,
        share=_share,
        measured=_measured,
    )


def _outcome(check: Check) -> str:
    return "hazard" if is_hazard(check) else check.outcome.replace("_", " ")


def _chapters(report: Report) -> list[Chapter]:
    groups: dict[str, list[Check]] = {}
    for check in report.checks:
        groups.setdefault(check.id.partition(".")[0], []).append(check)
    return [_chapter(name, checks) for name, checks in groups.items()]


def _chapter(name: str, checks: list[Check]) -> Chapter:
    counts = Counter(map(_outcome, checks))
    says = ", ".join(f"{n} {outcome}" for outcome, n in counts.items())
    return Chapter(name, says, _worst(counts), checks)


def _worst(counts: Mapping[str, int]) -> str:
    order = ("failed", "error", "hazard", "passed")
    worst = next((state for state in order if counts.get(state)), "none")
    return "failed" if worst == "error" else worst


def _share(check: Check) -> float | None:
    """How much of its bound a passed check used up, from 0 to 1; None where it has none."""
    if check.outcome != "passed" or (check.at_most, check.at_least) == (None, None):
        return None
    return min(nearness(check.measured, check.at_most, check.at_least), 1.0)


def _measured(check: Check) -> str:
    if check.measured is None:
        return ""
    bound = allowed(check.at_most, check.at_least)
    return f"{check.measured:.3g}{bound and f' ({bound})'}"


def _anatomy(anatomy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts of a model in the order of the stream, each with what was measured of it."""
    attention, feed_forward = anatomy.get("attention") or [], anatomy.get("feed_forward") or []
    if not attention:
        return []
    first, layers = attention[0], anatomy.get("layers") or len(attention)
    counted = anatomy.get("parameters", {}).get("counted", {})
    groups = "" if first["heads"] == first["kv_heads"] else f", {first['kv_heads']} for keys"
    norm = (anatomy.get("norm") or {}).get("kind") or "no"
    parts = [
        ("embedding", f"{anatomy.get('vocabulary')} tokens → {anatomy.get('width')} channels"),
        ("positions", str(anatomy.get("positions") or "none")),
        (
            f"{layers} × attention",
            f"{first['heads']} heads{groups}, {first['head_width']} channels each",
        ),
    ]
    if feed_forward:
        one = feed_forward[0]
        kind = "gated " if one.get("gated") else ""
        experts = f", {one['active']} of {one['experts']} experts" if one.get("experts") else ""
        says = f"{kind}{one.get('activation') or 'unknown'}, width {one.get('width')}{experts}"
        parts.append((f"{layers} × feed-forward", says))
    parts.append(("norms", f"{norm} norm"))
    tied = "tied to the embedding" if anatomy.get("tied") else "weights of its own"
    parts.append(("head", f"→ {anatomy.get('vocabulary')} logits, {tied}"))
    return [(name, _with_parameters(says, name, counted)) for name, says in parts]


def _with_parameters(says: str, part: str, counted: Mapping[str, int]) -> str:
    name = part.rpartition("× ")[2].replace("-", "_")
    return f"{says}; {counted[name]:,} parameters" if counted.get(name) else says


def _scripts(report: Report) -> list[tuple[str, str]]:
    """Each failed check's script, where it can be read."""
    return [
        (check.id, Path(check.script).read_text(encoding="utf-8"))
        for check in report.checks
        if check.script and Path(check.script).is_file()
    ]
