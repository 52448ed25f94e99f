"""Every mutant is caught by a property of the very claim that it breaks, and by a message."""

from pathlib import Path

import pytest

from theodolite import properties
from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import PropertyFailure
from theodolite.fixtures.oracles.strategies import without_shrinking
from theodolite.properties.mutants import load_mutants
from theodolite.properties.source import find_properties

FOLDER = Path(properties.__file__).parent
MUTANTS = [
    each
    for each in load_mutants()
    if each.seam not in {"source", "declared", "library"}
    and "reference" in {host.name for host in each.hosts}
    and "gqa" not in each.needs  # the properties' own reference has a key head for each query head
]
PROPERTIES = find_properties()

# A run of its own, silent, and without the plugin that collects garbage for a third of a second.
WITHOUT = ("cacheprovider", "xdist", "terminal", "unraisableexception")
OPTIONS = ["-c", "/dev/null", "--rootdir", str(FOLDER), *(f"-pno:{name}" for name in WITHOUT)]


class Verdicts:
    """Runs collected properties without shrinking, until every claim is caught; keeps verdicts."""

    def __init__(self, claims, component=None):
        self.component = component
        self.uncaught = set(claims)
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
                self.note(claims, error.judgement.component or _component(marks))
            elif isinstance(error, SubjectError):  # as an audit reports it
                self.note(claims, "shape")
            else:
                self.crashes.append(f"{item.nodeid}: {call.excinfo.exconly()}")
        if not self.uncaught:
            item.session.shouldstop = "every claim is caught"
        return (yield)

    def note(self, claims, accused):
        self.failures.append((claims, accused))
        if accused in {self.component, None}:
            self.uncaught -= claims


def _component(marks):
    return next((mark.kwargs["component"] for mark in marks if mark.kwargs["component"]), None)


def run_properties_of(mutant):
    """Run the properties that name a claim of the mutant, in this process, under the mutant."""
    names = [
        str(FOLDER / each.name) for each in PROPERTIES if set(each.claims) & set(mutant.claims)
    ]
    verdicts = Verdicts(mutant.claims, mutant.component)
    if names:
        with mutant.applied():
            pytest.main([*names, *OPTIONS], plugins=[verdicts])
    return verdicts


TRAINED = {"FFN-6", "NORM-7", "RES-6"}
"""Claims whose one property compares trainings, for seconds."""


def proving():
    """For each claim the first mutant that breaks it, the reference's own before those of hosts."""
    proven, chosen = set(TRAINED), set()
    for each in sorted(MUTANTS, key=lambda mutant: mutant.seam != "reference"):
        if not each.equivalent and not TRAINED & set(each.claims) and set(each.claims) - proven:
            proven |= set(each.claims)
            chosen.add(each.name)
    return chosen


def params(*, equivalent):
    """Every run kills one mutant of each claim; all the others have the slow suite."""
    ordinary = (
        {each.name for each in MUTANTS if each.seam == "reference"} if equivalent else proving()
    )
    return [
        pytest.param(each, id=each.name, marks=[] if each.name in ordinary else [pytest.mark.slow])
        for each in MUTANTS
        if bool(each.equivalent) == equivalent
    ]


@pytest.mark.parametrize("mutant", params(equivalent=False))
def test_each_claim_that_it_breaks_catches_it(mutant):
    verdicts = run_properties_of(mutant)
    for claim in mutant.claims:
        accused = {component for claims, component in verdicts.failures if claim in claims}
        assert accused, (
            f"no property of {claim} catches: {mutant.fault} "
            f"(crashed instead: {verdicts.crashes or 'none'})"
        )
        assert accused & {mutant.component, None}, (
            f"the properties of {claim} accuse {accused}, the fault is in {mutant.component}"
        )


@pytest.mark.parametrize("mutant", params(equivalent=True))
def test_a_change_that_is_no_fault_passes(mutant):
    verdicts = run_properties_of(mutant)
    assert set(mutant.claims) <= verdicts.ran
    assert not verdicts.failures
    assert not verdicts.crashes


def test_names_are_unique_and_faults_are_sentences():
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)
    for each in MUTANTS:
        assert each.fault.endswith("."), each.name
