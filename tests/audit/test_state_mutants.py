"""Checks of losses, parts and kept state are failed by mutants, and the right part is named."""

import pytest

import theodolite
from theodolite.properties.mutants import load_mutants

MUTANTS = {mutant.name: mutant for mutant in load_mutants()}
CAUGHT_BY = {
    "modules.executed": ["a-frozen-part-never-called", "a-parameter-that-nobody-uses"],
    "state.used": ["decoding-raises-the-base"],
    "tying.kept": ["tie-broken-by-a-cast"],
    "loss.padding": ["loss-over-the-whole-mask"],
}
PAIRS = [(check, name) for check, names in CAUGHT_BY.items() for name in names]


@pytest.mark.parametrize(("check", "name"), PAIRS, ids=[f"{c}-{n}" for c, n in PAIRS])
def test_a_mutant_fails_the_check(check, name):
    mutant = MUTANTS[name]
    with mutant.applied():
        report = theodolite.audit("reference", select=check)
    (found,) = report.checks
    assert found.outcome == "failed", found.message
    assert found.component == mutant.component, found.message
