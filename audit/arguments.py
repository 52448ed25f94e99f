"""What the parsers of all commands have in common: errors as sentences, and kinds of values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.settings import near


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are sentences, raised as `UsageError`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong.

        Raises:
            UsageError: Always.
        """
        said = message.removeprefix("argument ").rstrip(".")
        end = "" if said.endswith("?") else "."
        raise UsageError(f"{said}{end} `{self.prog} --help` says more")

    def options(self) -> list[argparse.Action]:
        """The arguments that have a value or are a switch: all but ``--help``."""
        return [action for action in self._actions if action.dest not in ("help", "command")]

    def refuse(self, strange: Sequence[str]) -> NoReturn:
        """Refuse words that no argument takes.

        Raises:
            UsageError: Always; names the first of them and what it is near to.
        """
        name = strange[0].partition("=")[0]
        if not name.startswith("-"):
            raise UsageError(f"{strange[0]!r} is one word too many. `{self.prog} --help` says more")
        known = [option for action in self._actions for option in action.option_strings]
        raise UsageError(
            f"{self.prog} has no option {name}.{near(name, known)} `{self.prog} --help` lists all"
        )


class Listed(argparse.Action):
    """Gather the values of a repeated option; the first one on a command line begins anew."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        *_rest: object,
    ) -> None:
        """Add a value to those of the same command line."""
        before = getattr(namespace, self.dest, None)
        kept = [] if before is None or before is self.default else before
        setattr(namespace, self.dest, [*kept, values])


def one_of(*words: str) -> Callable[[str], str]:
    """A type of argument: one of `words`."""

    def read(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(
                f"{text!r} is none of {', '.join(words)}.{near(text, words)}".rstrip(".")
            )
        return text

    return read


def add_fleet_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where many audits run, and how many at a time."""
    parser.add_argument(
        "--jobs",
        type=whole(1),
        metavar="N",
        help="audits at a time, one thread each (as many as there are cores)",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="audit on the workers of this Dask scheduler instead"
    )


_TOO_MUCH = 1e9
"""More seconds than a timer of the system takes are 9.2e9; a limit is at most doubled for it."""


def amount(unit: str) -> Callable[[str], float]:
    """A type of argument: so many of `unit`, above 0 and below what clocks and sizes can be."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (0 < value < _TOO_MUCH):
            raise argparse.ArgumentTypeError(
                f"{text!r} will not do: give {unit}, more than 0 and less than {_TOO_MUCH:g}"
            )
        return value

    return read


seconds = amount("seconds")
"""A type of argument: a time."""


def whole(least: int) -> Callable[[str], int]:
    """A type of argument: a whole number from `least` on."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"{text!r} will not do: give a whole number, {least} or more"
            )
        return value

    return read
