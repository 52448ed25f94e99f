"""Write a stand-alone script for each failed check: the smallest case that shows the fault."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from theodolite.fixtures.errors import Unknown
from theodolite.fixtures.loading.names import Unwritable
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.scripts.construction import Construction, constructions, put_together
from theodolite.properties.scripts.folder import ScriptFolder
from theodolite.properties.scripts.relation import Relation
from theodolite.properties.scripts.relations import RELATIONS
from theodolite.properties.scripts.scene import Scene, arrangement
from theodolite.properties.scripts.trial import Outcome, as_its_own, attempt
from theodolite.report import Check, Report

_WIDTH = 96
_CASES = 40
"""Cases of one relation that are tried in one view."""


@dataclass(frozen=True)
class Script:
    """A script that shows a fault.

    Attributes:
        text: The script.
        said: What its assertion says.
        clear: Whether what it measures is far past its bound.
    """

    text: str
    said: str
    clear: bool


def write_scripts(subject: Subject, report: Report, folder: Path) -> Report:
    """Write ``folder/CHECK.py`` for each failed check, and README.md about all of them.

    Args:
        subject: What was audited.
        report: What was found.
        folder: Where to write: a new folder, or one that this function wrote before.

    Returns:
        The report, its failed checks with the path of their script, or why there is none.

    Raises:
        UsageError: If the folder holds anything else.
    """
    own = ScriptFolder(folder)
    own.require_own()
    own.clear()
    checks = []
    with as_its_own():
        construction, why = _construction(subject)
        for check in report.checks:
            if check.outcome != "failed":
                checks.append(check)
                continue
            found: Script | Unknown = (
                Unknown(why) if construction is None else _script(subject, check, construction)
            )
            if isinstance(found, Unknown):
                checks.append(replace(check, no_script=found.reason))
                continue
            file = own.write(f"{check.id}.py", found.text)
            checks.append(replace(check, script=str(file)))
    done = replace(report, checks=tuple(checks))
    own.write("README.md", _readme(done))
    return done


def _construction(subject: Subject) -> tuple[Construction | None, str]:
    """The first way to build the subject that works in a script, or why none does."""
    why = ""
    try:
        for construction in constructions(subject.loaded):
            construction = put_together(construction, subject)  # noqa: PLW2901
            outcome = attempt(subject, "\n".join(_beginning(construction, [], [])))
            if not outcome.said:
                return construction, ""
            why = why or f"the model cannot be built by a few lines: {outcome.said}"
    except Unwritable as reason:
        why = why or str(reason)
    return None, why


def _script(subject: Subject, check: Check, construction: Construction) -> Script | Unknown:
    """A script for one check: of the relations and views that show it, the first clear one."""
    relations = RELATIONS.get(check.id)
    if not relations:
        return Unknown("what it measures cannot be shown in a few lines")
    scene = Scene(subject, check, construction.expression)
    doubtful: Script | None = None
    for relation in relations:
        for view in _views(relation, check):
            found = _smallest(scene, relation, view, construction)
            if found is not None and found.clear:
                return found
            doubtful = doubtful or found
    return doubtful or Unknown("a script of a few lines did not show it")


def _views(relation: Relation, check: Check) -> list[str]:
    if relation.views:
        return list(relation.views)
    failing = str(check.where.get("view") or check.view or "as given")
    return list(dict.fromkeys((failing, "sharpened", "as given")))


def _smallest(
    scene: Scene, relation: Relation, view: str, construction: Construction
) -> Script | None:
    """The first case that shows the fault clearly, or at all."""
    arranged = arrangement(scene, view)
    if arranged is None:
        return None
    mode = [] if relation.gradient else ["torch.set_grad_enabled(False)"]
    model = ["torch.manual_seed(0)", f"model = {construction.expression}.eval()", *arranged.after]
    call = scene.subject.convention.source(arranged.given, "**more")
    function = [
        "",
        "def logits(ids, **more):",
        *(f"    {line}" for line in arranged.before),
        f"    return {call}{scene.pick}",
        "",
    ]
    beginning = _beginning(construction, [*mode, *model, *function], list(relation.imports))
    doubtful: Script | None = None
    for body, outcome in _outcomes(scene, relation, beginning):
        if not outcome.shown:
            continue
        text = _finished(scene.check, scene.subject.name, beginning, body)
        script = Script(text, outcome.said, outcome.clear)
        if not attempt(scene.subject, text).shown:  # all of it, from nothing
            continue
        if outcome.clear:
            return script
        doubtful = doubtful or script
    return doubtful


def _outcomes(
    scene: Scene, relation: Relation, beginning: list[str]
) -> Iterator[tuple[str, Outcome]]:
    """What each case does behind a beginning that is executed once."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    if attempt(scene.subject, "\n".join(beginning), scope).said:
        return
    for case in islice(relation.cases(scene), _CASES):
        if any(value is None for value in case.values()):
            continue
        body = relation.text(case)
        if relation.fresh:
            text = "\n".join([*beginning, body])
            yield body, attempt(scene.subject, text)
        else:
            yield body, attempt(scene.subject, body, dict(scope))


def _beginning(construction: Construction, lines: list[str], imports: list[str]) -> list[str]:
    plain = sorted({*construction.imports, *imports} - {"torch"})
    start = [*(f"import {name}" for name in plain), "import torch", *construction.lines]
    return [*start, *(lines or [f"model = {construction.expression}"])]


def _finished(check: Check, subject: str, beginning: list[str], body: str) -> str:
    says = check.expected or check.message
    title = f"{check.id} on {subject}: expected: {says.splitlines()[0].rstrip('.')}."
    text = f"{title} This ends in an error as long as that does not hold."
    lines = textwrap.wrap(text.replace("\\", "/").replace('"""', "'''"), _WIDTH - 3)
    return "\n".join(['"""' + "\n".join(lines) + '"""', *beginning, body, ""]).replace(
        "\n\n\n", "\n\n"
    )


def _readme(report: Report) -> str:
    written = [check for check in report.checks if check.script]
    missing = [check for check in report.checks if check.no_script]
    total = len(written) + len(missing)
    lines = [
        f"# {report.subject}: {len(written)} of {total} failed checks, each as a script",
        "",
        (
            "Each script needs torch and the model's own file alone. It ends in an error as long "
            "as the fault is there, and with status 0 once it is mended."
        ),
        "",
    ]
    for check in written:
        claims = ", ".join(check.claims) or check.id
        lines.append(f"- `{Path(check.script).name}` ({claims}): {check.expected}")
    if missing:
        lines += ["", "Without a script (`theodolite audit ... --select CHECK` shows them):", ""]
        lines += [f"- `{check.id}`: {check.no_script}" for check in missing]
    return "\n".join(lines) + "\n"
