"""What the property and mutant modules say of themselves, read from their source.

Nothing is imported or run: the claims table is there at once, without torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

PROPERTIES = Path(__file__).parent


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: Path
    line: int

    def __str__(self) -> str:
        """As an editor opens it: relative to the current folder where the file lies under it."""
        folder = Path.cwd()
        file = self.file.relative_to(folder) if self.file.is_relative_to(folder) else self.file
        return f"{file}:{self.line}"


@dataclass(frozen=True)
class PropertySource:
    """A property: where it stands and which claims it names.

    Attributes:
        name: As pytest prints it, from the properties folder: "test_rope.py::test_...".
        claims: The claims it names.
        check: The name of its check in an audit, or None.
        component: The part that its failure accuses, or None.
        says: Its name, which is what it claims, as a sentence.
        place: Where it stands.
        about: Its docstring: what it does.
        views: The ways of running the subject in which a check is asked, where it names them.
        budget: The smallest budget of an audit that pays for a check.
    """

    name: str
    claims: tuple[str, ...]
    check: str | None
    component: str | None
    says: str
    place: Place
    about: str = ""
    views: tuple[str, ...] = ()
    budget: str = "quick"


@dataclass(frozen=True)
class MutantSource:
    """A fault: its name, the claims it breaks, the checks that catch it, why it may be none."""

    name: str
    claims: tuple[str, ...]
    component: str
    fault: str
    source: str
    equivalent: str | None
    caught_by: tuple[str, ...]


def find_properties(folder: Path = PROPERTIES, mentioning: str = "") -> list[PropertySource]:
    """Every function of the property modules that names a claim, in the order of the files.

    Args:
        folder: Where to look.
        mentioning: A word that a file must have to be read: a claim, a check, a cause.
    """
    return [
        replace(each, name=f"{path.relative_to(folder).as_posix()}::{each.name}")
        for path in _mentioning(sorted(folder.rglob("test_*.py")), mentioning)
        for each in properties_in(path)
    ]


@cache
def properties_in(path: Path) -> tuple[PropertySource, ...]:
    """The properties of one file, called by their functions' names."""
    return tuple(
        PropertySource(
            name=name,
            claims=tuple(call.ids[1:] if call.decorator == "check" else call.ids),
            check=call.ids[0] if call.decorator == "check" else None,
            component=call.options.get("component"),
            says=_sentence(function),
            place=Place(path, function.lineno),
            about=ast.get_docstring(function) or "",
            views=tuple(call.options.get("views", ())),
            budget=call.options.get("budget", "quick"),
        )
        for name, function, call in _decorated(path, "claim", "check")
    )


def find_scripts(folder: Path = PROPERTIES / "scripts") -> dict[str, Place]:
    """For each check that a script can show: where its relations are listed."""
    return {
        key.value: Place(path, key.lineno)
        for path in sorted(folder.glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)
        for key in node.value.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def find_mutants(folder: Path = PROPERTIES / "mutants", mentioning: str = "") -> list[MutantSource]:
    """Every fault that the mutant modules register.

    Args:
        folder: Where to look.
        mentioning: A word that a file must have to be read: a fault, a claim, a check.
    """
    from theodolite.properties.mutants.places import SEAMS  # it needs no torch

    components = dict.fromkeys(("mutant", "source", "declared", "library"), "")  # they say it
    components |= {name: seam.component for name, seam in SEAMS.items()}
    return [
        MutantSource(
            name=call.ids[0],
            claims=tuple(call.ids[1].split()),
            component=call.options.get("component", components[call.decorator]),
            fault=" ".join(says.split()),
            source=call.options.get("source", "own"),
            equivalent=call.options.get("equivalent"),
            caught_by=tuple(call.ids[2].split()) if len(call.ids) > 2 else (),
        )
        for path in _mentioning(sorted(folder.glob("*.py")), mentioning)
        for says, call in _registered(path, frozenset(components))
    ]


def _mentioning(paths: Iterable[Path], word: str) -> Iterator[Path]:
    return (path for path in paths if not word or word in path.read_text(encoding="utf-8"))


def _sentence(function: ast.FunctionDef) -> str:
    return f"{function.name.removeprefix('test_').replace('_', ' ').capitalize()}."


@dataclass(frozen=True)
class _Call:
    decorator: str
    ids: list[str]
    options: dict[str, Any]


def _decorated(path: Path, *decorators: str) -> Iterator[tuple[str, ast.FunctionDef, _Call]]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for name, function in _functions(tree, ""):
        for node in function.decorator_list:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in decorators
            ):
                yield name, function, _read(node, path)


@cache
def _registered(path: Path, kinds: frozenset[str]) -> list[tuple[str, _Call]]:
    """(what is said of it, the call) of each fault: a decorator, or a statement that says it."""
    found = [
        (ast.get_docstring(function) or "", call) for _, function, call in _decorated(path, *kinds)
    ]
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as called) if name in kinds:
                call = _read(called, path)
                found.append((call.options["says"], call))
    return found


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}::")


def _read(node: ast.Call, path: Path) -> _Call:
    try:
        return _Call(
            ast.unparse(node.func),
            [ast.literal_eval(argument) for argument in node.args],
            {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg},
        )
    except ValueError as error:
        message = f"{path.name}, line {node.lineno}: write the decorator's arguments as literals"
        raise ValueError(message) from error
