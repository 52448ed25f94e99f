"""Which causes a check may name, and where it does not apply: read from its source, unrun.

A name is a literal that the check's function can come to: in itself, in the functions of its file,
or in one of the instrument that its file imports (`fixtures.relations.blame` ...).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from theodolite.properties.catalogue import load_causes
from theodolite.properties.source import PROPERTIES

_INSTRUMENT = "theodolite.fixtures."
_FIXTURES = PROPERTIES.parent / "fixtures"
_HOLE = "…"


def causes_named(file: Path, function: str) -> list[str]:
    """The causes that a check may give, by any of their names, in the order of their lines."""
    found = list(_reached(file, function))
    words = {n.value for n in found if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return list(dict.fromkeys(name for node in found for name in _names(node, words)))


def files_naming(names: Iterable[str]) -> list[Path]:
    """The files of checks that have one of the names, themselves or in the instrument's advice."""
    wanted = _any_of(names)
    tools = [path for path in _advisers() if wanted.search(path.read_text(encoding="utf-8"))]
    imports = [re.compile(rf"from {re.escape(_module_name(path))} import") for path in tools]
    return [
        path
        for path in sorted((PROPERTIES / "checks").glob("test_*.py"))
        for text in (path.read_text(encoding="utf-8"),)
        if wanted.search(text) or any(each.search(text) for each in imports)
    ]


def reasons(file: Path, function: str) -> list[str]:
    """Why a check may not apply, as it says; what it fills in is an ellipsis."""
    found: list[str] = []
    for node in _reached(file, function, within=True):
        match node:
            case ast.Call(func=ast.Name(id="not_applicable"), args=[said]):
                found.extend(_texts(said))
            case ast.Call(func=ast.Name(id="each"), args=[_, said]):
                found.extend(_texts(said))
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class _Module:
    defined: dict[str, ast.AST]
    imported: dict[str, tuple[Path, str]]


@cache
def _module(path: Path) -> _Module:
    defined: dict[str, ast.AST] = {}
    imported: dict[str, tuple[Path, str]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined[name] = node
            case ast.ImportFrom(module=str(module), names=names) if module.startswith(_INSTRUMENT):
                place = _FIXTURES / f"{module.removeprefix(_INSTRUMENT).replace('.', '/')}.py"
                imported |= {each.asname or each.name: (place, each.name) for each in names}
    return _Module(defined, imported)


def _reached(file: Path, function: str, *, within: bool = False) -> Iterator[ast.AST]:
    """Every node of a function and of what it uses: in its file, or in advisers as well."""
    waiting, seen = [(file, function)], set()
    while waiting:
        place = path, name = waiting.pop(0)
        if place in seen:
            continue
        seen.add(place)
        module = _module(path)
        for node in ast.walk(module.defined.get(name, ast.Pass())):
            yield node
            if isinstance(node, ast.Name):
                if node.id in module.defined:
                    waiting.append((path, node.id))
                elif not within and module.imported.get(node.id, (None,))[0] in _advisers():
                    waiting.append(module.imported[node.id])


def _names(node: ast.AST, words: Collection[str]) -> Iterator[str]:
    """The names of causes in a node; those put together are of `words`."""
    match node:
        case ast.Constant(value=str(text)) if "-" in text and text in _known():
            yield text
        case ast.keyword(arg="cause", value=ast.Constant(value=str(text))) if text in _known():
            yield text
        case ast.keyword(arg="cause", value=ast.IfExp(body=body, orelse=otherwise)):
            for each in (body, otherwise):
                yield from _names(ast.keyword(arg="cause", value=each), words)
        case ast.JoinedStr(values=parts) if any(map(_has_letters, parts)):
            hole = "|".join(re.escape(word) for word in words if re.fullmatch(r"[a-z]+", word))
            pattern = "".join(
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else f"({hole})"
                for part in parts
            )
            yield from (name for name in _known() if re.fullmatch(pattern, name))


def _has_letters(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and re.search(r"[a-z]{3}", str(part.value)) is not None


@cache
def _known() -> dict[str, None]:
    return {name: None for cause in load_causes() for name in cause.names}


@cache
def _advisers() -> frozenset[Path]:
    """The instrument's files in which causes are named."""
    wanted = _any_of(name for name in _known() if "-" in name)
    paths = _FIXTURES.rglob("*.py")
    return frozenset(p for p in paths if wanted.search(p.read_text(encoding="utf-8")))


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile('"(' + "|".join(map(re.escape, names)) + ')"')


def _module_name(path: Path) -> str:
    return _INSTRUMENT + ".".join(path.relative_to(_FIXTURES).with_suffix("").parts)


def _texts(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else _HOLE for part in parts
            )
        case ast.IfExp(body=body, orelse=otherwise):
            yield from _texts(body)
            yield from _texts(otherwise)
