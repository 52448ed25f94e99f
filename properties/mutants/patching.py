"""Changes to code that can be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from functools import partial, wraps
from types import ModuleType
from typing import Any

PATCHED = ("theodolite.reference", "theodolite.fixtures", "theodolite.properties")
"""Packages in which `Patch.replace` looks for the object to be replaced."""


class Patch:
    """Changes that can be undone."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, original: object, replacement: object) -> None:
        """Put `replacement` wherever a module or a class of ours holds `original` by a name.

        Raises:
            LookupError: If nothing holds it: the mutant would be the original.
        """
        places = [
            (holder, name)
            for holder in _holders()
            for name, value in vars(holder).items()
            if value is original
        ]
        if not places:
            raise LookupError(f"no module of ours holds {original!r}: mutate something else")
        for holder, name in places:
            self._set(holder, name, replacement)

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

    def override(self, owner: type, name: str, replacement: object) -> None:
        """Let `owner` define `name`, which it inherits.

        Raises:
            LookupError: If it has no such name.
        """
        if not hasattr(owner, name):
            raise LookupError(f"{owner.__name__} has no {name!r}: name what it does hold")
        self._set(owner, name, replacement)

    def after_init(self, owner: type, act: Callable[[Any], None]) -> None:
        """Let `act` have every new instance of `owner`.

        Raises:
            LookupError: If `owner` itself does not define ``__init__``.
        """
        original = owner.__init__  # type: ignore[misc]

        @wraps(original)
        def init(instance: Any, *arguments: Any, **options: Any) -> None:
            original(instance, *arguments, **options)
            act(instance)

        self.method(owner, "__init__", init)

    def item(self, table: MutableMapping[str, Any], key: str, replacement: object) -> None:
        """Replace the value under `key` of a table.

        Raises:
            LookupError: If the table has no such key.
        """
        if key not in table:
            raise LookupError(f"the table has no {key!r}: name what it does hold")
        self._undo.append(partial(table.__setitem__, key, table[key]))
        table[key] = replacement

    def undo(self) -> None:
        """Put everything back, last change first."""
        while self._undo:
            self._undo.pop()()

    def _set(self, place: Any, name: str, replacement: object) -> None:
        if name in vars(place):
            self._undo.append(partial(setattr, place, name, vars(place)[name]))
        else:
            self._undo.append(partial(delattr, place, name))
        setattr(place, name, replacement)


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
