"""Which checks of an audit are meant: by id, group, claim, chapter of the ledger or expression.

Nothing of it imports torch: what names no check is refused before a model is loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from theodolite.command_line import BUDGET, BUDGETS
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.settings import listing, near
from theodolite.properties.ledger import load_ledger
from theodolite.properties.source import PropertySource, find_properties

QUICK_VIEWS = frozenset({"as given", "sharpened"})
"""The views of the subject that a quick audit looks at."""


@dataclass(frozen=True)
class AuditCheck:
    """A check of an audit, and the properties that ask it.

    Attributes:
        id: Its stable name, e.g. "causality.perturb".
        claims: The claims that it judges.
        component: The part that its failure accuses.
        properties: Its tests, one or more.
    """

    id: str
    claims: tuple[str, ...]
    component: str
    properties: tuple[PropertySource, ...]

    @property
    def says(self) -> str:
        """What holds where it passes, in a sentence."""
        return self.properties[0].says

    @property
    def files(self) -> set[str]:
        """The files of its tests, from the folder of the properties."""
        return {each.name.partition("::")[0] for each in self.properties}

    def is_called(self, name: str) -> bool:
        """Whether `name` is its id, its group, a claim that it judges, or that claim's chapter."""
        return (
            f"{self.id}.".startswith(f"{name}.")
            or name in self.claims
            or any(claim.startswith(f"{name}-") for claim in self.claims)
        )

    def is_asked(self, budget: str) -> bool:
        """Whether an audit of that budget runs it without being asked for it by its id."""
        return any(
            pays_for(budget, each.budget, view)
            for each in self.properties
            for view in each.views or (None,)
        )

    @property
    def words(self) -> str:
        """What an expression is compared with: all its names."""
        tests = (each.name.rpartition("::")[2] for each in self.properties)
        return " ".join((self.id, *self.claims, self.component, *tests)).lower()


@cache
def audit_checks() -> Mapping[str, AuditCheck]:
    """Every check of an audit, by its id, in the order of the files."""
    asked: dict[str, list[PropertySource]] = {}
    for each in find_properties():
        if each.check is not None:
            asked.setdefault(each.check, []).append(each)
    return {
        check: AuditCheck(
            check,
            tuple(dict.fromkeys(claim for each in tests for claim in each.claims)),
            tests[0].component or "",
            tuple(tests),
        )
        for check, tests in asked.items()
    }


@dataclass(frozen=True)
class Selection:
    """The checks that an audit is to run.

    Attributes:
        select: What was asked for by name; None for all.
        checks: The ids of what is left of it, in the order of the files.
        skipped: The ids of what was asked to be left out, of that.
    """

    select: tuple[str, ...] | None
    checks: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence on what was left out, if anything was."""
        return (f"left out: {listing(self.skipped)}",) if self.skipped else ()

    @property
    def files(self) -> list[str]:
        """The files in which they stand, from the folder of the properties."""
        return sorted({file for check in self.checks for file in audit_checks()[check].files})


def selection(
    select: str | Sequence[str] | None = None,
    skip: str | Sequence[str] | None = None,
    keyword: str | None = None,
    *,
    budget: str = BUDGET,
) -> Selection:
    """The checks that are meant.

    Args:
        select: Ids, groups ("causality"), claims ("ATT-4") or chapters ("ROPE"); None for all.
        skip: The same, of what not to run.
        keyword: An expression over their ids, claims, components and tests: "rope and not cache".
        budget: That of the audit; what costs more is left out unless its very id is selected.

    Raises:
        UsageError: If a name means no check, the expression means nothing, or nothing is left.
    """
    wanted, unwanted = _listed(select), _listed(skip) or ()
    for name in (*(wanted or ()), *unwanted):
        require_known(name)
    holds = _expression(keyword) if keyword is not None else lambda _words: True
    asked = [
        check
        for check in audit_checks().values()
        if wanted is None or any(map(check.is_called, wanted))
        if holds(check.words)
        if check.id in (wanted or ()) or check.is_asked(budget)
    ]
    left = [check.id for check in asked if not any(map(check.is_called, unwanted))]
    if not left:
        raise UsageError(
            f"no check is left to run at the budget {budget!r}: select more or skip less; "
            "`theodolite audit --list` shows all"
        )
    skipped = [check.id for check in asked if check.id not in left]
    return Selection(wanted, tuple(left), tuple(skipped))


def pays_for(budget: str, least: str, view: str | None) -> bool:
    """Whether an audit of `budget` runs a property that asks for `least`, in a view or in none."""
    if budget == "quick" and view not in {*QUICK_VIEWS, None}:
        return False
    return BUDGETS.index(least) <= BUDGETS.index(budget)


def require_budget(name: str) -> None:
    """Require that there is a budget called `name`.

    Raises:
        UsageError: If there is none.
    """
    if name not in BUDGETS:
        raise UsageError(f"no budget is called {name!r}; there are {', '.join(BUDGETS)}")


def require_known(name: str) -> None:
    """Refuse a name that means no check.

    Raises:
        UsageError: If it is none; says which are near, or why no audit asks for that claim.
    """
    checks = audit_checks()
    if name and any(check.is_called(name) for check in checks.values()):
        return
    claims = [claim for claim in load_ledger() if name in (claim.id, claim.chapter)]
    if claims:
        raise UsageError(
            f"no check of an audit judges {name}: it is about mathematics, a part or the "
            f"reference alone; `theodolite claims {name}` says what does"
        )
    known = [*checks, *groups(), *dict.fromkeys(c for each in checks.values() for c in each.claims)]
    group = name.partition(".")[0]
    among = [check for check in checks if check.startswith(f"{group}.")]
    there_are = f" {group} has {listing(among)}." if group and among else ""
    raise UsageError(
        f"{name!r} is no check, group or claim.{near(name, known)}{there_are} "
        "`theodolite audit --list` shows all"
    )


def require_expected(expected: Iterable[str]) -> None:
    """Refuse expected failures that name no single check.

    Raises:
        UsageError: Naming the first of them, and what it may mean.
    """
    for name in expected:
        if name not in audit_checks():
            raise UsageError(
                f"an expected failure is called {name!r}, and no check is."
                f"{near(name, audit_checks())} `theodolite audit --list` shows all"
            )


def groups() -> list[str]:
    """The groups of checks: what stands before the dot of their ids."""
    return list(dict.fromkeys(check.partition(".")[0] for check in audit_checks()))


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return (names,) if isinstance(names, str) else None if names is None else tuple(names)


def _expression(text: str) -> Callable[[str], bool]:
    """Whether words, in lower case, are what `text` asks for: substrings, and, or, not."""
    refusal = UsageError(
        f"{text!r} is no expression: join parts of names by and, or, not, as in "
        "'rope and not cache'"
    )

    def read(node: ast.expr) -> Callable[[str], bool]:
        if isinstance(node, ast.BoolOp):
            parts = [read(value) for value in node.values]
            every = all if isinstance(node.op, ast.And) else any
            return lambda words: every(part(words) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            part = read(node.operand)
            return lambda words: not part(words)
        name = ast.get_source_segment(source, node) or ""
        if not name or not set(name) <= _NAME:
            raise refusal
        return lambda words: name.lower() in words

    source = text.strip()
    try:
        return read(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise refusal from None


_NAME = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
