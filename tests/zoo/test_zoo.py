"""Correct models pass, however unusual; what is wrong in a published one is found."""

import json
import os
from pathlib import Path

import pytest
from animals.entries import families, others
from animals.sides import past_their_bounds

pytestmark = [pytest.mark.zoo, pytest.mark.filterwarnings("ignore")]


def record(entry, report):
    """Append a line for docs/zoo.md (see docs/regenerate.py), if asked to."""
    place = os.environ.get("THEODOLITE_ZOO")
    if place:
        line = {"package": entry.package, "name": entry.name, **report.to_dict()}
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@pytest.mark.parametrize("entry", [*families(), *others()], ids=str)
def test_a_model_of_the_zoo_passes(entry):
    pytest.importorskip(entry.needs)
    report = entry.audit()
    record(entry, report)
    assert report.verdict == "pass", [f"{c.id}: {c.message}" for c in report.failures]
    assert past_their_bounds(report) == []
