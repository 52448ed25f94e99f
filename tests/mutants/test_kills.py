"""Every mutant is caught by a property of the very claim that it breaks, and by a message."""

from pathlib import Path

import pytest
from theodolite import properties
from theodolite.fixtures.judging import PropertyFailure
from theodolite.fixtures.strategies import without_shrinking
from theodolite.properties.mutants import load_mutants
from theodolite.properties.source import find_properties

FOLDER = Path(properties.__file__).parent
MUTANTS = load_mutants()


class Verdicts:
    """Runs the collected properties without shrinking; keeps what each says of each claim."""

    def __init__(self):
        self.failures = []  # (claims, component the failure accuses)
        self.crashes = []
        self.ran = set()

    def pytest_collection_modifyitems(self, items):
        for item in items:
            without_shrinking(item.obj)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        marks = list(item.iter_markers("claim"))
        claims = {each for mark in marks for each in mark.args}
        if call.when == "call":
            self.ran |= claims
        if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            error = call.excinfo.value
            if isinstance(error, PropertyFailure):
                accused = error.judgement.component or _component(marks)
                self.failures.append((claims, accused))
            else:
                self.crashes.append(f"{item.nodeid}: {call.excinfo.exconly()}")
        return (yield)


def _component(marks):
    return next((mark.kwargs["component"] for mark in marks if mark.kwargs["component"]), None)


def run_properties_of(claims):
    """Run every property that names one of `claims`, in this process."""
    names = [
        str(FOLDER / each.name) for each in find_properties() if set(each.claims) & set(claims)
    ]
    verdicts = Verdicts()
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:terminal", "-c", "/dev/null"]
    if names:
        pytest.main([*names, *options, "--rootdir", str(FOLDER)], plugins=[verdicts])
    return verdicts


@pytest.mark.parametrize(
    "mutant", [pytest.param(each, id=each.name) for each in MUTANTS if not each.equivalent]
)
def test_a_property_of_each_claim_it_breaks_catches(mutant):
    with mutant.applied():
        verdicts = run_properties_of(mutant.claims)
    for claim in mutant.claims:
        accused = {component for claims, component in verdicts.failures if claim in claims}
        assert accused, (
            f"no property of {claim} catches: {mutant.fault} "
            f"(crashed instead: {verdicts.crashes or 'none'})"
        )
        assert accused & {mutant.component, None}, (
            f"the properties of {claim} accuse {accused}, the fault is in {mutant.component}"
        )


@pytest.mark.parametrize(
    "mutant", [pytest.param(each, id=each.name) for each in MUTANTS if each.equivalent]
)
def test_a_change_that_is_no_fault_passes(mutant):
    with mutant.applied():
        verdicts = run_properties_of(mutant.claims)
    assert set(mutant.claims) <= verdicts.ran
    assert not verdicts.failures
    assert not verdicts.crashes


def test_names_are_unique_and_faults_are_sentences():
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)
    for each in MUTANTS:
        assert each.fault.endswith("."), each.name
