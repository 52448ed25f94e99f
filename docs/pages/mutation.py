"""docs/mutation.md: what became of the tool's mutants, and why those left are no faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

UNEXPLAINED = "**not explained**"

HEAD = """# Mutants that nobody here wrote

An off-the-shelf tool, mutmut, changes `reference/` one place at a time, and each module is judged
by the properties of its chapter and its own tests: `tox -e mutation`, or for some modules
`tox -e mutation -- FOLDER MODULE ...`. Its results are kept in docs/data/mutation.json, of which
`tox -e docs` makes this page; do not edit. Reasons are in `tests/mutation/survivors.toml`. The
wording of messages and the signatures of functions are not mutated.

*Killed*: a check failed. *Timeout*: the checks did not end, which counts as noticed. *Left*: no
check failed, or none of those selected runs the place; each is below, with the reason why it is no
fault.
"""


def explained(change: Mapping[str, str], reasons: Iterable[Mapping[str, str]]) -> str:
    """The reason of the first entry whose every other field is a part of the change's own."""
    for reason in reasons:
        if all(part in change[field] for field, part in reason.items() if field != "reason"):
            return reason["reason"]
    return UNEXPLAINED


def page(
    results: Mapping[str, Mapping[str, Any]],
    reasons: list[Mapping[str, str]],
    suites: Iterable[str],
) -> str:
    """The whole page, in Markdown."""
    lines = [
        HEAD,
        "| module | mutants | killed | timeout | left | of these explained | not tried |",
    ]
    lines.append("|---|---|---|---|---|---|---|")
    total: Counter[str] = Counter()
    below: list[str] = []
    for module, result in sorted(results.items()):
        verdicts = result["verdicts"]
        left = [{"module": module, **each} for each in result["left"]]
        left = [each for each in left if each["verdict"] != "timeout"]
        why = [explained(each, reasons) for each in left]
        counts = {
            "mutants": sum(verdicts.values()),
            "killed": verdicts.get("killed", 0),
            "timeout": verdicts.get("timeout", 0),
            "left": len(left),
            "explained": sum(reason != UNEXPLAINED for reason in why),
            "not tried": verdicts.get("not checked", 0),
        }
        total.update(counts)
        lines.append(_row(module, *counts.values()))
        if left:
            below += [f"## {module}", "", "| function | was | became | why it is no fault |"]
            below += ["|---|---|---|---|"]
            below += [
                _row(each["function"], _code(each["was"]), _code(each["became"]), reason)
                for each, reason in zip(left, why, strict=True)
            ]
            below.append("")
    lines += [_row("**all**", *total.values()), ""]
    missing = [module for module in suites if module not in results]
    others = "checkpoint, config, data, products and training have no suite there yet"
    lines += [
        f"Not run: {', '.join(missing)}." if missing else "Every module of suites.toml was run."
    ]
    lines += [f"Not run either: {others}.", "", *below]
    return "\n".join(lines).rstrip() + "\n"


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else "(nothing)"
