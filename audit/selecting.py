"""Which checks there are, and which a name means: read from the properties' source."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from theodolite.fixtures.errors import UsageError
from theodolite.properties.source import PROPERTIES, find_properties

BUDGETS = ("quick", "standard", "thorough")


def require_budget(name: str) -> None:
    """Require that there is a budget called `name`.

    Raises:
        UsageError: If there is none.
    """
    if name not in BUDGETS:
        raise UsageError(f"no budget is called {name!r}; there are {', '.join(BUDGETS)}")


def matches(check: str, name: str) -> bool:
    """Whether `name` means `check`: it is its id, or that of its group."""
    return check == name or check.startswith(name + ".")


def files_of(name: str) -> set[str]:
    """The files of the checks that `name` means; none for a name that means nothing."""
    return {file for check, files in _homes().items() if matches(check, name) for file in files}


def require_checks(names: Iterable[str], what: str) -> None:
    """Require that each of `names` means a check.

    Raises:
        UsageError: If one does not; `what` begins the sentence ("select names").
    """
    strange = [name for name in names if not files_of(name)]
    if strange:
        raise UsageError(
            f"{what} {strange[0]!r}, which is no check; there are: " + ", ".join(sorted(_homes()))
        )


@cache
def _homes() -> dict[str, set[str]]:
    """The files in which the properties of each check stand."""
    homes: dict[str, set[str]] = {}
    for each in find_properties(PROPERTIES):
        if each.check is not None:
            homes.setdefault(each.check, set()).add(each.name.partition("::")[0])
    return homes
