"""The commonest families of Hugging Face pass: a part of the zoo for every run."""

import pytest
from animals.hugging_face import FEW

import theodolite

pytest.importorskip("transformers")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FEW)
def test_a_common_family_passes(family):
    report = theodolite.audit(f"hf:{family}")
    assert report.verdict == "pass", [f"{c.id}: {c.message}" for c in report.failures]
