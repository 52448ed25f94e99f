"""The catalogue of causes: whatever can be named stands in it, and nothing else."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from theodolite import fixtures, properties
from theodolite.properties.catalogue import cause_of, load_causes
from theodolite.properties.checks.test_declared import SETTINGS
from theodolite.properties.source import find_mutants

CAUSES = load_causes()
MUTANTS = find_mutants()
NO_CAUSES = {"as given", "site-packages", "dist-packages", "two-matrix", "written-out", "utf-8"}
PACKAGES = {
    "flash-attn", "hydra-core", "opencv-python", "python-dotenv", "scikit-learn",
    "sentence-transformers", "simple-parsing",
}  # fmt: skip
"""Distributions that `fixtures.source.missing_packages` knows by another name."""


def sources():
    for package, folder in ((fixtures, "."), (properties, "checks")):
        yield from sorted((Path(package.__file__).parent / folder).rglob("*.py"))


def named_in(tree):
    """Every name that a judgement may give: literals, and those put together."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if re.fullmatch(r"[a-z_]+(-[a-z0-9]+)+", text):
                yield text
            case ast.keyword(arg="cause", value=value):
                yield from values(value)


def values(node):
    """The texts that an expression may come to."""
    match node:
        case ast.Constant(value=str(text)) if text:
            yield text
        case ast.IfExp(body=body, orelse=otherwise):
            yield from values(body)
            yield from values(otherwise)
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from values(part)


def can_be_named():
    """The names that the code can give a cause."""
    read = {name for path in sources() for name in named_in(ast.parse(path.read_text("utf-8")))}
    pairs = [("keys", "values"), ("queries", "keys"), ("queries", "values")]
    built = {f"{other}-are-{one}" for one, other in pairs} | {"cached-keys", "cached-values"}
    for key, setting in SETTINGS.items():
        stem = key.replace("_", "-")
        built |= {setting.cause} if setting.cause else {f"{stem}-differs", f"{stem}-ignored"}
    return (read | built) - NO_CAUSES - PACKAGES - {"-are-"}


NAMED = can_be_named()
PROVED = [each for each in MUTANTS if each.caught_by and each.equivalent is None]


@pytest.mark.parametrize("name", sorted(NAMED))
def test_every_cause_that_the_code_can_give_is_in_the_catalogue(name):
    assert cause_of(name) is not None, (
        f"{name} may be printed as a cause: describe it in properties/causes"
    )


@pytest.mark.parametrize("fault", PROVED, ids=lambda each: each.name)
def test_every_known_fault_is_a_form_of_a_cause(fault):
    assert cause_of(fault.name) is not None, (
        f"{fault.name} may be printed by a diagnosis: say in properties/causes, under `faults`, "
        "which cause it is a form of"
    )


def test_nothing_stands_in_it_that_nobody_can_name():
    faults = {each.name for each in MUTANTS}
    for cause in CAUSES:
        assert set(cause.faults) <= faults, cause.name
        assert set(cause.names) <= NAMED or cause.faults, cause.name


def test_a_name_stands_in_it_once():
    names = Counter(name for cause in CAUSES for name in cause.names)
    faults = Counter(fault for cause in CAUSES for fault in cause.faults)
    assert [name for name, times in names.items() if times > 1] == []
    assert [name for name, times in faults.items() if times > 1] == []
    for cause in CAUSES:
        for fault in cause.faults:
            assert names[fault] == 0 or fault in cause.names, f"{fault} is another cause's name"


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_a_cause_is_told_in_sentences_with_a_few_lines_of_code(cause):
    for text in (cause.says, cause.remedy, cause.alike):
        assert re.search(r"[.!]$", text), text
        assert not text[0].islower() or text.startswith("train()"), text
        assert "\n" not in text
    assert "not so" not in cause.says
    assert cause.wrong != cause.right
    for code in (cause.wrong, cause.right):
        assert 1 <= len(code.splitlines()) <= 5
        assert all(len(line) <= 90 for line in code.splitlines())
        ast.parse(code if not code.rstrip().endswith(":") else f"{code}\n    ...")


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_a_cause_accuses_a_part_that_reports_know(cause):
    known = {each.component for each in MUTANTS}
    assert cause.component in known | {"shape", "training"}
