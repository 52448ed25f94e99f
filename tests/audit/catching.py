"""Mutants of the reference that fail checks, for tests of which check catches which."""

import pytest

import theodolite
from theodolite.properties.mutants import load_mutants

MUTANTS = {mutant.name: mutant for mutant in load_mutants()}


def pairs(caught_by):
    """Each check with each of its mutants, of check → names of mutants."""
    return [
        pytest.param(check, name, id=f"{check}-{name}")
        for check, names in caught_by.items()
        for name in names
    ]


def catches(check, name):
    """Require that the reference with the mutant fails the check, which accuses its component."""
    mutant = MUTANTS[name]
    with mutant.applied():
        report = theodolite.audit("reference", select=check)
    (found,) = report.checks
    assert found.outcome == "failed", found.message
    assert found.component == mutant.component, found.message
