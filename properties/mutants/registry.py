"""Mutants: the reference with one known fault, to prove that a property can see it.

    @mutant("no-scale", component="scale", breaks=("SCL-5",))
    def _(patch: Patch) -> None:
        \"\"\"Scores are not divided by the root of the head width.\"\"\"
        patch.replace(attention.scale, lambda width: 1.0)

The docstring is the fault in one sentence. The decorator's arguments are literals: the claims table
reads them from the source, without importing torch.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

PATCHED = ("theodolite.reference", "theodolite.fixtures", "theodolite.properties")
"""Packages in which `Patch.replace` looks for the object to be replaced."""


class Patch:
    """Changes that can be undone."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def replace(self, original: object, replacement: object) -> None:
        """Put `replacement` wherever a module or a class of ours holds `original` by a name.

        Raises:
            LookupError: If nothing holds it: the mutant would be the original.
        """
        places = [place for place in _holders() if _names_of(place, original)]
        if not places:
            raise LookupError(f"no module of ours holds {original!r}: mutate something else")
        for place in places:
            for name in _names_of(place, original):
                self._set(place, name, replacement)

    def method(self, owner: type, name: str, replacement: object) -> None:
        """Replace the method (or class attribute) `name` of `owner`.

        Raises:
            LookupError: If `owner` itself does not define it.
        """
        if name not in vars(owner):
            raise LookupError(f"{owner.__name__} does not define {name!r}: name what it does")
        self._set(owner, name, replacement)

    def value(self, module: ModuleType, name: str, replacement: object) -> None:
        """Replace the value `name` of one module (a constant, say).

        Raises:
            LookupError: If the module has no such name.
        """
        if name not in vars(module):
            raise LookupError(f"{module.__name__} has no {name!r}: name what it does hold")
        self._set(module, name, replacement)

    def undo(self) -> None:
        """Put everything back, last change first."""
        while self._undo:
            place, name, before = self._undo.pop()
            setattr(place, name, before)

    def _set(self, place: Any, name: str, replacement: object) -> None:
        self._undo.append((place, name, vars(place)[name]))
        setattr(place, name, replacement)


@dataclass(frozen=True)
class Mutant:
    """One known fault.

    Attributes:
        name: Unique, in words joined by hyphens.
        component: The part that is at fault, one of the report's component names.
        claims: The claims it breaks: a property of each must fail.
        fault: The fault in one sentence.
        source: "own", or the public thread that reports such a fault.
        apply: Makes the fault, given a `Patch`.
        equivalent: None, or why this change is no fault: then every property must still pass.
        chapter: The name of the module that defines it ("attention").
    """

    name: str
    component: str
    claims: tuple[str, ...]
    fault: str
    source: str
    apply: Callable[[Patch], None]
    equivalent: str | None
    chapter: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Hold the fault in place for the length of a with block."""
        patch = Patch()
        try:
            self.apply(patch)
            yield
        finally:
            patch.undo()


_registered: dict[str, Mutant] = {}


def mutant(
    name: str,
    *,
    component: str,
    breaks: tuple[str, ...] = (),
    source: str = "own",
    equivalent: str | None = None,
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register the decorated function as the mutant `name`.

    Args:
        name: Unique, in words joined by hyphens.
        component: The part at fault.
        breaks: The claims whose properties must each catch it; those it touches besides are not
            named.
        source: "own", or the public thread that reports such a fault ("owner/repository#1").
        equivalent: Why the change is no fault; then `breaks` names the claims that must still hold.

    Raises:
        ValueError: If the name is taken, the fault is not described, or no claim is named.
    """

    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        if name in _registered:
            raise ValueError(f"two mutants are called {name!r}: give one another name")
        if not breaks:
            raise ValueError(f"mutant {name!r} names no claim: say in `breaks` which it breaks")
        fault = " ".join((apply.__doc__ or "").split())
        if not fault:
            raise ValueError(f"mutant {name!r} has no docstring: describe the fault in a sentence")
        chapter = apply.__module__.rpartition(".")[2]
        _registered[name] = Mutant(
            name, component, breaks, fault, source, apply, equivalent, chapter
        )
        return apply

    return register


def load_mutants() -> list[Mutant]:
    """Every mutant, in the order of chapters and names. Imports torch."""
    package = importlib.import_module("theodolite.properties.mutants")
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    return sorted(_registered.values(), key=lambda each: (each.chapter, each.name))


def _holders() -> list[Any]:
    modules = [
        module
        for name, module in list(sys.modules.items())
        if module is not None and name.startswith(PATCHED)
    ]
    classes = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith(PATCHED)
    }
    return [*modules, *classes.values()]


def _names_of(place: Any, original: object) -> list[str]:
    return [name for name, value in vars(place).items() if value is original]
