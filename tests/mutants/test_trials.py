"""Each fault in each model that has a place for it: caught by its checks, and put down to its part.

A faulty model is audited once for all that is asserted of it. Every run tries what a fault's
`often` names; the slow suite has the others, as `theodolite mutants` has them.
"""

from collections import Counter

import pytest

import theodolite
from theodolite.properties.mutants import load_hosts, load_mutants, pairs
from theodolite.properties.mutants.hosts import TextHost
from theodolite.properties.mutants.registry import obstacle
from theodolite.properties.source import find_properties

MUTANTS = {each.name: each for each in load_mutants()}
HOSTS = {host.name: host for host in load_hosts()}
CHECKS = {each.check for each in find_properties() if each.check is not None}

TEXTS = {name for name, host in HOSTS.items() if isinstance(host, TextHost)}

INSIDE = ("inside", "heads", "rope", "norm", "feed_forward", "residual", "assembly", "batch")
SERVING = ("cache", "padding", "packing", "positions", "loss", "generation", "init", "tying")
BUILDING = (
    "modules", "gradient.every_parameter", "parameters", "tying", "declared", "state", "init",
    "vocabulary", "loss", "packing",
)  # fmt: skip
TRAINING = ("precision", "gradient", "backend")
SPARSE = ("window", "cache", "experts", "feed_forward", "groups", "heads", "declared", "batch")
LOOKED_INTO = {
    "training": TRAINING, "sparse": SPARSE, "mistral-text": SPARSE, "mixtral-text": SPARSE,
}  # fmt: skip
"""Model as a text → groups of checks that know of what is changed in it."""
BY_COMPONENT = {
    **dict.fromkeys(("cache", "rope", "position", "mask", "padding", "generation"), SERVING),
    **dict.fromkeys(("gradient", "dtype", "backend"), TRAINING),
    **dict.fromkeys(
        ("parameters", "tying", "state", "init", "vocabulary", "loss", "dropout"), BUILDING
    ),
}
"""Component → groups of checks, for the other texts; those that are not here are seen inside."""


def selected(mutant, host, *, often):
    """The checks that are run: of a text what knows of it; else, in every run, its own."""
    if not isinstance(host, TextHost):
        return mutant.caught_by if often and not mutant.equivalent else None
    known = LOOKED_INTO.get(host.name) or BY_COMPONENT.get(mutant.component, INSIDE)
    return sorted({*known, *mutant.caught_by})


def trials():
    """Every fault in each of its hosts: as parameters, slow but for those of every run.

    Of faults that prove the same checks of one part, every run tries the first.
    """
    proved = set()
    for mutant in MUTANTS.values():
        for host in mutant.hosts:
            if not mutant.caught_by and not (mutant.equivalent and mutant.seam != "reference"):
                continue
            text = host.changes.get(mutant.name) if isinstance(host, TextHost) else None
            often = host.name in mutant.often or (text is not None and text.often)
            often = often or mutant.seam in {"declared", "library"}
            proves = {(check, host.name in TEXTS) for check in mutant.caught_by}
            every = often and (bool(mutant.equivalent) or not proves <= proved)
            proved |= proves if every else set()
            yield pytest.param(
                mutant.name,
                host.name,
                often,
                id=f"{mutant.name}-in-{host.name}",
                marks=[] if every else [pytest.mark.slow],
            )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "place", "often"), list(trials()))
def test_a_fault_is_caught_where_it_is_put_and_its_part_is_named(name, place, often):
    mutant, host = MUTANTS[name], HOSTS[place]
    if reason := obstacle(mutant, host):
        pytest.skip(reason)
    with mutant.applied(host):
        report = theodolite.audit(
            host.subject(mutant),
            select=selected(mutant, host, often=often),
            budget=mutant.budget,
            strict=True,
            prove=False,
        )
    said = [f"{c.id} ({c.component}, {c.cause}): {c.message}" for c in report.failures]
    if mutant.equivalent:
        assert report.verdict == "pass", said
        return
    accused = Counter(check.component for check in report.failures)
    caught = [check for check in report.failures if check.id in mutant.caught_by]
    assert caught, (mutant.fault, said)
    assert accused.keys() & {mutant.component, *mutant.also}, said
    if not isinstance(host, TextHost):
        return
    assert report.verdict == "fail"
    assert report.diagnosis[0]["component"] == mutant.component, said
    cause = host.changes[name].cause
    assert cause in {None, *(check.cause for check in report.failures)}, said


def test_every_check_is_proved_by_a_fault_and_every_proof_names_a_check():
    proved = {check for mutant, _ in pairs() for check in mutant.caught_by}
    assert proved == CHECKS


def test_every_change_of_a_text_belongs_to_a_fault():
    for host in HOSTS.values():
        if isinstance(host, TextHost):
            assert set(host.changes) - DESIGNS <= set(MUTANTS), host.name


DESIGNS = {"sinks-as-a-factor"}
"""Changes of texts that are no faults to the checks that look inside (see test_texts.py)."""


def test_a_fault_of_each_component_that_is_changed_in_a_text_is_tried_in_every_run():
    tried = {MUTANTS[each.values[0]].component for each in trials() if each.values[2]}
    assert tried >= {mutant.component for mutant, host in pairs() if isinstance(host, TextHost)}


def test_a_text_that_is_another_one_is_a_sentence():
    host, mutant = HOSTS["by_hand"], MUTANTS["no-scale"]
    change = host.changes[mutant.name]
    with pytest.raises(LookupError, match="stands there 0 times"):
        change.applied_to("another text\n")
    assert obstacle(mutant, host) is None
