"""The command that does again what was done: whole, quoted for a shell, ready to be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from theodolite.fixtures.loading.settings import write_settings
from theodolite.subject_arguments import LIMIT

BUDGETS = ("quick", "standard", "thorough")
BUDGET = "standard"


@dataclass(frozen=True)
class Audit:
    """All that decides what an audit finds; see `theodolite.audit` for each.

    Attributes:
        subject: How the subject is named; None for a live one, which no command can name.
        settings: Keyword arguments for building it.
        declare: What is declared of it.
        as_configured: Whether it is built at the size of its own defaults.
        weights: The file that its weights are taken from, or None.
        time_limit: Seconds that a forward may take.
        budget: What the audit may cost.
        explore: Whether fresh examples are drawn.
    """

    subject: str | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    declare: Mapping[str, Any] = field(default_factory=dict)
    as_configured: bool = False
    weights: str | Path | None = None
    time_limit: float = LIMIT
    budget: str = BUDGET
    explore: bool = False

    def again(
        self,
        select: Iterable[str] = (),
        skip: Iterable[str] = (),
        keyword: str | None = None,
    ) -> str:
        """The command, or the call from Python, that audits the same subject in the same way.

        Args:
            select: Checks to run; none for all.
            skip: Checks to leave out.
            keyword: An expression that chooses checks.
        """
        chosen = {"select": [*select], "skip": [*skip]}
        if self.subject is None:
            return self._call({**chosen, "keyword": keyword})
        words = ["theodolite", "audit", self.subject]
        for option, pairs in (("--set", self.settings), ("--declare", self.declare)):
            words += [word for pair in write_settings(pairs) for word in (option, pair)]
        words += ["--as-configured"] * self.as_configured
        words += [] if self.weights is None else ["--weights", str(self.weights)]
        words += ["--time-limit", f"{self.time_limit:g}"] * (self.time_limit != LIMIT)
        words += ["--budget", self.budget] * (self.budget != BUDGET)
        words += ["--explore"] * self.explore
        for option, names in chosen.items():
            words += [word for name in names for word in (f"--{option}", name)]
        words += [] if keyword is None else ["-k", keyword]
        return shlex.join(words)

    def _call(self, chosen: Mapping[str, Any]) -> str:
        given = {
            "settings": dict(self.settings),
            "declare": dict(self.declare),
            "as_configured": self.as_configured,
            "weights": None if self.weights is None else str(self.weights),
            "time_limit": None if self.time_limit == LIMIT else self.time_limit,
            "budget": None if self.budget == BUDGET else self.budget,
            "explore": self.explore,
            **chosen,
        }
        keywords = [f"{name}={value!r}" for name, value in given.items() if value]
        return f"theodolite.audit({', '.join(['model', *keywords])})"
