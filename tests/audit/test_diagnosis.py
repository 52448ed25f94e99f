"""Failures that look like a known fault are told as such; what looks like none is not."""

import pytest

from theodolite.diagnosis import PASSED, Diagnostician, Fault, Trial, symptom_of

CHECKS = ["causality.perturb", "inside.scale", "backend.agree", "cache.steps", "norm.formula"]
FAULTS = [
    Fault("mask-shows-the-next", "mask", "The mask lets a query see the next key."),
    Fault("no-scale", "scale", "Scores are not divided by the root of the head width."),
    Fault("cache-lost", "cache", "The cache forgets its oldest token."),
]


def said(**failed):
    """What five checks say; those named fail and accuse the component given."""
    failed = {check.replace("__", "."): symptom for check, symptom in failed.items()}
    return {check: failed.get(check, PASSED) for check in CHECKS}


LEAK = said(causality__perturb="mask/future-visible", cache__steps="cache")
UNSCALED = said(inside__scale="scale/scale-missing", backend__agree="backend")
FORGETFUL = said(cache__steps="cache/cache-content")


@pytest.fixture
def diagnostician():
    trials = [
        Trial(fault, host, symptoms)
        for host in ("one", "other")
        for fault, symptoms in (
            ("mask-shows-the-next", LEAK),
            ("no-scale", UNSCALED),
            ("cache-lost", FORGETFUL),
        )
    ]
    return Diagnostician(FAULTS, trials)


def test_a_model_that_passes_is_not_accused(diagnostician):
    assert diagnostician.suspects(said()) == []


@pytest.mark.parametrize(
    ("symptoms", "component", "cause"),
    [
        (LEAK, "mask", "mask-shows-the-next"),
        (UNSCALED, "scale", "no-scale"),
        (FORGETFUL, "cache", "cache-lost"),
    ],
)
def test_a_known_fault_is_named_with_its_sentence(diagnostician, symptoms, component, cause):
    first = diagnostician.suspects(symptoms)[0]
    assert (first.component, first.cause) == (component, cause)
    assert first.sentence in {fault.sentence for fault in FAULTS}
    assert set(first.evidence) == {check for check, symptom in symptoms.items() if symptom}


def test_what_an_accusation_means_is_learned(diagnostician):
    """Two ways of computing differ: here, that has always meant the scale."""
    first = diagnostician.suspects(said(backend__agree="backend"))[0]
    assert first.component == "scale"


def test_checks_that_did_not_run_say_nothing(diagnostician):
    seen = {check: LEAK[check] for check in ("causality.perturb", "norm.formula")}
    first = diagnostician.suspects(seen)[0]
    assert (first.component, first.cause) == ("mask", "mask-shows-the-next")


def test_failures_unlike_any_known_fault_keep_what_the_checks_say(diagnostician):
    first = diagnostician.suspects(said(norm__formula="norm/rms-by-deviation"))[0]
    assert (first.component, first.cause, first.sentence) == ("norm", "rms-by-deviation", "")


def test_without_any_knowledge_the_most_accused_component_comes_first():
    first = Diagnostician([], []).suspects(LEAK | said(inside__scale="mask"))[0]
    assert first.component == "mask"


def test_symptoms_are_read_off_outcomes():
    assert symptom_of("passed", "mask", None) == PASSED
    assert symptom_of("failed", "mask", None) == "mask"
    assert symptom_of("failed", "mask", "future-visible") == "mask/future-visible"
    assert symptom_of("not_applicable", "mask", None) is None
    assert symptom_of("error", "", None) is None
