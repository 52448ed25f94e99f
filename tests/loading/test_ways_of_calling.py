"""Models that take one row, one token, or a cache of each layer: a whole forward all the same."""

import pytest
import torch

from theodolite import audit
from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.subject.subject import Subject

from .served import (
    LAST_ALONE,
    LOOKS_AHEAD,
    MIXED,
    NONE_A_LAYER,
    ON_CUDA,
    ONE_ROW,
    ONE_SEQUENCE,
    ONE_TOKEN,
    SET_UP,
)

CALLED = {
    "one token": (ONE_TOKEN, "Served"),
    "one row": (ONE_ROW, "Row"),
    "one sequence": (ONE_SEQUENCE, "Row"),
    "the last position": (LAST_ALONE, "Row"),
    "caches set up": (SET_UP, "Served"),
    "mixed dtypes": (MIXED, "Row"),
    "on CUDA": (ON_CUDA, "Row"),
}
SAID = {
    "one token": "it takes one token at a time: sequences are put together, start_pos from 0 on",
    "one row": "it takes one row at a time",
    "one sequence": "it takes one sequence, without an axis for a batch",
    "the last position": "it gives logits of the last position alone: head is given all of them",
    "caches set up": "its caches were set up by setup_caches(max_batch_size=32, max_seq_length=64)",
    "mixed dtypes": "it mixes bfloat16 and float32 and cannot run so: judged in float32",
    "on CUDA": "it asks for CUDA, which is not here: judged on the CPU",
}


@pytest.fixture(params=CALLED)
def spec(request, write):
    if request.param == "on CUDA" and torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    source, name = CALLED[request.param]
    return request.param, f"{write(source)}:{name}"


def test_a_whole_forward_is_put_together(spec):
    subject = Subject.load(spec[1])
    ids = subject.random_ids(3, 7)
    logits = subject.run(subject.model, ids)
    assert logits.shape == (3, 7, 97)
    alone = torch.cat([subject.run(subject.model, row) for row in ids.split(1)])
    assert torch.allclose(logits, alone, atol=1e-5)
    assert SAID[spec[0]] in subject.notes


def test_gradients_flow_through_what_is_put_together(spec):
    subject = Subject.load(spec[1])
    for _ in range(2):  # what the first call keeps must not reach into the second
        subject.run(subject.model, subject.random_ids(2, 5), gradient=True).sum().backward()
    assert all(p.grad is not None for p in subject.model.parameters())


def test_what_is_put_together_passes_an_audit(spec):
    report = audit(spec[1], budget="quick")
    assert [check.id for check in report.checks if check.outcome == "failed"] == []


def test_a_model_that_hides_all_positions_but_the_last_is_seen_through(write):
    report = audit(f"{write(LOOKS_AHEAD)}:Row", budget="quick", select=["causality"])
    assert "causality.perturb" in {c.id for c in report.checks if c.outcome == "failed"}


def test_a_cache_is_given_a_none_for_each_layer(write):
    subject = Subject.load(f"{write(NONE_A_LAYER)}:Row")
    assert "kv_caches is given as a list of None, one a layer" in subject.notes
    assert subject.run(subject.model, subject.random_ids(3, 7)).shape == (3, 7, 97)


def test_what_one_token_raises_is_told_of_a_model_that_wants_one(write):
    source = ONE_TOKEN.replace("self.keys[:rows, start_pos", "self.keys[:1, start_pos")
    with pytest.raises(SubjectError, match="one token at a time; and with one token: RuntimeError"):
        Subject.load(f"{write(source)}:Served")
