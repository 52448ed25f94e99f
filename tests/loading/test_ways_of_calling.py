"""Models that take one row, one token, or a cache of each layer: a whole forward all the same."""

import pytest
import torch

from theodolite import audit
from theodolite.fixtures.subject.subject import Subject

from .served import NONE_A_LAYER, ONE_ROW, ONE_TOKEN

SOURCES = {"Served": ONE_TOKEN, "Row": ONE_ROW}
SAID = {
    "Served": "it takes one token at a time: sequences are put together, start_pos from 0 on",
    "Row": "it takes one row at a time",
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_whole_forward_is_put_together(name, write):
    subject = Subject.load(f"{write(SOURCES[name])}:{name}")
    ids = subject.random_ids(3, 7)
    logits = subject.run(subject.model, ids)
    assert logits.shape == (3, 7, 97)
    alone = torch.cat([subject.run(subject.model, row) for row in ids.split(1)])
    assert torch.allclose(logits, alone, atol=1e-5)
    assert SAID[name] in subject.notes


@pytest.mark.parametrize("name", SOURCES)
def test_gradients_flow_through_what_is_put_together(name, write):
    subject = Subject.load(f"{write(SOURCES[name])}:{name}")
    for _ in range(2):  # what the first call keeps must not reach into the second
        subject.run(subject.model, subject.random_ids(2, 5), gradient=True).sum().backward()
    assert all(p.grad is not None for p in subject.model.parameters())


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_put_together_passes_an_audit(name, write):
    report = audit(f"{write(SOURCES[name])}:{name}", budget="quick")
    assert [check.id for check in report.checks if check.outcome == "failed"] == []


def test_a_cache_is_given_a_none_for_each_layer(write):
    subject = Subject.load(f"{write(NONE_A_LAYER)}:Row")
    assert "kv_caches is given as a list of None, one a layer" in subject.notes
    assert subject.run(subject.model, subject.random_ids(3, 7)).shape == (3, 7, 97)
