"""The commonest families of Hugging Face pass: a part of the zoo for every run."""

import pytest
from animals.findings import FINDINGS
from animals.hugging_face import FEW
from animals.sides import past_their_bounds

import theodolite

pytest.importorskip("transformers")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FEW)
def test_a_common_family_passes(family):
    expected = FINDINGS.get(("transformers", family), {})
    report = theodolite.audit(f"hf:{family}", expected_failures=expected)
    assert report.verdict == "pass", [f"{c.id}: {c.message}" for c in report.failures]
    assert past_their_bounds(report) == []
