"""Source text that builds a subject as the audit built it, with nothing but torch and its file."""

from __future__ import annotations

import ast
import inspect
import keyword
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from theodolite.fixtures.loading.huggingface.model import Configured
from theodolite.fixtures.loading.names import Names, Unwritable, arguments
from theodolite.fixtures.loading.plan import MISSING
from theodolite.fixtures.loading.python_target import Loaded
from theodolite.fixtures.recording.recorder import InPieces
from theodolite.fixtures.source.import_paths import own_folders, package_of
from theodolite.fixtures.source.partial_execution import Executed
from theodolite.fixtures.subject.assembled_forward import EveryPosition
from theodolite.fixtures.subject.subject import Subject

_NAMES = """def named(s):
    if isinstance(s, (ast.Import, ast.ImportFrom)):
        return {(a.asname or a.name).partition(".")[0] for a in s.names}
    stored = (n for n in ast.walk(s) if isinstance(getattr(n, "ctx", None), ast.Store))
    return {s.name} if hasattr(s, "name") else {getattr(n, "id", None) for n in stored}
tree.body = [s for s in tree.body if keep & named(s)]"""


@dataclass
class Construction:
    """The beginning of a script.

    Attributes:
        imports: Modules that its expression needs besides torch.
        lines: What brings the subject's names in.
        expression: Makes the model.
    """

    imports: set[str]
    lines: list[str]
    expression: str


def constructions(loaded: Loaded) -> Iterator[Construction]:
    """Ways to build the subject in a script, the plainest first.

    Raises:
        Unwritable: If there is none.
    """
    if loaded.library is not None:
        yield _of_library(loaded.library)
        return
    if loaded.executed is None:
        raise Unwritable(
            "the reference is part of Theodolite"
            if loaded.name == "reference"
            else "a live object cannot be written down: name the subject as FILE.py:NAME"
        )
    executed = loaded.executed
    if executed.program.path in executed.beside:
        yield from _of_file(loaded, executed)
    else:
        yield from _of_module(loaded, executed)


def put_together(construction: Construction, subject: Subject) -> Construction:
    """The same where a whole forward is put together from calls of one row, or of one token."""
    whole = subject.model
    if not isinstance(whole, InPieces | EveryPosition):
        return construction
    lines = [*construction.lines, *whole.source(subject.random_ids(1)).splitlines()]
    expression = f"{type(whole).__name__}({construction.expression})"
    return replace(construction, lines=lines, expression=expression)


def _of_library(configured: Configured) -> Construction:
    chosen = configured.implementation
    suffix = "" if chosen is None else f", attn_implementation={chosen!r}"
    if configured.folder is not None:
        if configured.values:
            raise Unwritable("a folder's configuration was changed by settings")
        start = "from transformers import AutoConfig, AutoModelForCausalLM"
        folder = repr(str(configured.folder))
        if configured.has_weights:
            made = f"AutoModelForCausalLM.from_pretrained({folder}{suffix})"
        else:
            made = f"AutoModelForCausalLM.from_config(AutoConfig.from_pretrained({folder}){suffix})"
        return Construction(set(), [start], f"{made}.float()")
    assert configured.config_class is not None
    writer = Names()
    kind, config = configured.model_class.__name__, configured.config_class.__name__
    try:
        default = configured.config_class()
    except Exception:  # some need arguments: then all fields are written
        default = object()
    flat = {k: v for k, v in configured.values.items() if "." not in k}
    fields = {k: v for k, v in flat.items() if getattr(default, k, MISSING) != v}
    config_made = f"{config}({arguments({k: writer.literal(v) for k, v in fields.items()})})"
    lines = [f"from transformers import {config}, {kind}", f"config = {config_made}"]
    nested = {k: v for k, v in configured.values.items() if "." in k}
    lines += [f"config.{key} = {writer.literal(value)}" for key, value in nested.items()]
    made = f"{kind}(config)" if chosen is None else f"{kind}._from_config(config{suffix})"
    return Construction(writer.imports, lines, made)


def _of_module(loaded: Loaded, executed: Executed) -> Iterator[Construction]:
    writer = Names(executed)
    name = loaded.name.rpartition(":")[2]
    writer.take(executed.module.__name__, name.partition(".")[0])
    expression = _expression(loaded, name, writer)
    lines = [*writer.import_lines(), *writer.lines]
    yield Construction(writer.imports, lines, expression)
    lines.insert(0, f"sys.path.insert(0, {os.fspath(Path.cwd())!r})")
    yield Construction({*writer.imports, "sys"}, lines, expression)


def _of_file(loaded: Loaded, executed: Executed) -> Iterator[Construction]:
    path = executed.program.path
    name = loaded.name.rpartition(":")[2]
    root, dotted = package_of(path)
    built = loaded.built
    importable = all(map(str.isidentifier, dotted.split("."))) and not any(
        map(keyword.iskeyword, dotted.split("."))
    )
    if importable and not executed.left_out and not (built and built.constants):
        for folders in ([root], own_folders(path)):
            writer = Names(executed)
            writer.take(executed.module.__name__, name.partition(".")[0])
            expression = _expression(loaded, name, writer)
            found = ", ".join(repr(os.fspath(folder)) for folder in folders)
            lines = [f"sys.path[:0] = [{found}]", *writer.import_lines(), *writer.lines]
            yield Construction({*writer.imports, "sys"}, lines, expression)
    yield _of_part(loaded, executed, name)


def _of_part(loaded: Loaded, executed: Executed, name: str) -> Construction:
    """Execute only the statements that the name needs; the script says so."""
    writer, path = Names(executed), executed.program.path
    constants = (
        {}
        if loaded.built is None
        else {key: loaded.built.values[key] for key in sorted(loaded.built.constants)}
    )
    expression = _expression(loaded, name, writer)
    wanted = {name.partition(".")[0], *writer.names.pop(package_of(path)[1], [])}
    keep = sorted(_needed(executed, wanted, set(constants)))
    folders = ", ".join(repr(os.fspath(folder)) for folder in own_folders(path))
    fields = {key: constants.pop(key) for key in list(constants) if "." in key}
    given = ", **settings" if constants else ""
    lines = [
        f"sys.path[:0] = [{folders}]",
        *writer.import_lines(),
        f"# of {path.name} only what {name} needs is executed: the rest (data, training) is cut",
        f"tree = ast.parse(open({os.fspath(path)!r}).read())",
        f"keep = {{{', '.join(map(repr, keep))}}}",
        _NAMES,
        *([f"settings = {writer.literal(constants)}"] if constants else []),
        f"scope = {{'__name__': '__main__', '__file__': {os.fspath(path)!r}{given}}}",
        f"exec(compile(tree, {path.name!r}, 'exec'), scope)",
        *(["scope.update(settings)"] if constants else []),
        *(_set(executed, path, writer.literal(value)) for path, value in fields.items()),
        "globals().update({name: scope[name] for name in keep})",
        *writer.lines,
    ]
    return Construction({*writer.imports, "ast", "sys"}, lines, expression)


def _set(executed: Executed, path: str, value: str) -> str:
    """The line that sets a field of what stands at the top level of the executed file."""
    name, _, field = path.partition(".")
    if isinstance(getattr(executed.module, name, None), dict):
        return f"scope[{name!r}][{field!r}] = {value}"
    return f"setattr(scope[{name!r}], {field!r}, {value})"


def _needed(executed: Executed, wanted: set[str], given: set[str]) -> set[str]:
    """What `wanted` names need of a file, where `given` names are set.

    What stayed undefined in the audit (a text that is missing) is not needed.
    """
    features = [u.node for u in executed.program.units if isinstance(u.node, ast.ImportFrom)]
    found = {a.name for node in features if node.module == "__future__" for a in node.names}
    waiting = [*wanted]
    while waiting:
        name = waiting.pop()
        defining = [unit for unit in executed.program.units if name in unit.defines]
        if name in found | given or not defining or not hasattr(executed.module, name):
            continue
        found.add(name)
        for unit in defining:
            waiting += unit.uses
    return found


def _expression(loaded: Loaded, name: str, writer: Names) -> str:
    if loaded.built is None:
        return name
    values = {k: v for k, v in loaded.built.values.items() if k not in loaded.built.constants}
    made = loaded.built.plan.source(values, writer)
    target = loaded.built.plan.origin.target
    if inspect.ismethod(target) or getattr(target, "__qualname__", name) != name:
        made = made.replace(getattr(target, "__qualname__", name), name, 1)
    return made
