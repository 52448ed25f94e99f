"""The house: rooms in one order, every file in its place."""

import ast
import re
from pathlib import Path

import pytest

from theodolite.fixtures import ROOMS
from theodolite.properties.source import find_properties

ROOT = Path(__file__).parent.parent
PACKAGES = re.search(
    r"packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.DOTALL
)[1]
FOLDERS = {
    "theodolite": "audit",
    "theodolite.reference": "reference",
    "theodolite.fixtures": "fixtures",
    "theodolite.properties": "properties",
}
PORCH = {"plugin", "parts", "overrides"}
AUDITS = [each for each in find_properties() if each.check is not None]


def imported_by(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_that_stand_above_it(room):
    known = {*ROOMS[: ROOMS.index(room) + 1], "errors", "lazily", "torch_internals"}
    for file in (ROOT / "fixtures" / room).rglob("*.py"):
        for module in imported_by(file):
            parts = module.split(".")
            if parts[0] == "theodolite":
                assert parts[1] in ("reference", "fixtures"), f"{file} imports {module}"
            if parts[:2] == ["theodolite", "fixtures"]:
                assert parts[2] in known, f"{file} imports {module}, which stands below {room}"


def test_every_module_of_the_fixtures_has_a_room():
    alone = {file.stem for file in (ROOT / "fixtures").glob("*.py")}
    assert alone == {"__init__", "errors", "lazily", "torch_internals", *PORCH}
    folders = {folder.parent.name for folder in (ROOT / "fixtures").glob("*/__init__.py")}
    assert folders == set(ROOMS)


PRIVATE = re.compile(r"torch(\.\w+)*\._\w|_cdata|_global_forward|\._forward_(pre_)?hooks\b")


def test_what_torch_does_not_document_is_used_in_one_file():
    for folder in ("audit", "fixtures", "properties"):  # the reference imports nothing of these
        for file in (ROOT / folder).rglob("*.py"):
            if file != ROOT / "fixtures" / "torch_internals.py":
                assert not PRIVATE.search(file.read_text(encoding="utf-8")), file


def test_every_folder_with_modules_is_packed():
    packed = set(re.findall(r'"([^"]+)"', PACKAGES))
    for name, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            inner = init.parent.relative_to(ROOT / folder).parts
            assert ".".join([name, *inner]) in packed


@pytest.mark.parametrize("audit", AUDITS, ids=lambda each: each.check)
def test_the_file_of_a_check_is_called_by_its_prefix(audit):
    folder, _, file = audit.name.partition("::")[0].rpartition("/")
    prefix = audit.check.partition(".")[0]
    assert folder == "checks"
    assert re.fullmatch(rf"test_{prefix}(_[a-z_]+)?\.py", file)


def test_nothing_but_checks_stands_among_the_checks():
    strangers = [
        each.name for each in find_properties() if each.check is None and "checks/" in each.name
    ]
    assert strangers == []
