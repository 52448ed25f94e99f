"""A right model of any context is right: what it does not take is not asked of it."""

import pytest
import torch
from decoders import Encoder, Lectures, Rows, rotary
from torch import nn

import theodolite
from theodolite.fixtures.subject.lengths import find_longest
from theodolite.fixtures.subject.subject import Subject

FAMILIES = (Lectures, rotary, Encoder, Rows)


def says(report):
    return {check.id: check.message for check in report.failures}


@pytest.mark.parametrize("make", FAMILIES)
def test_a_right_model_of_a_short_context_passes(make):
    report = theodolite.audit(make(8))
    assert not says(report)
    assert any("8 tokens" in note and "nothing longer is judged" in note for note in report.notes)


@pytest.mark.parametrize("context", [2, 3, 4, 13, 16, 17, 32, 40])
def test_a_right_model_passes_at_every_context(context):
    assert not says(theodolite.audit(Lectures(context), budget="quick"))


@pytest.mark.slow
@pytest.mark.parametrize("make", FAMILIES)
@pytest.mark.parametrize("context", range(2, 65))
def test_every_right_model_passes_at_every_context(make, context):
    assert not says(theodolite.audit(make(context)))


def test_a_limit_that_is_said_and_does_not_work_is_a_fault():
    model = Lectures(8)
    model.block_size = 64
    found = says(theodolite.audit(model, select=["length", "shape", "causality"]))
    assert "The model does not run at its own longest length, 64" in found["length.longest"]
    assert set(found) == {"length.longest"}


def test_a_limit_that_is_said_is_not_searched_for():
    assert Subject.load(Lectures(64)).found_longest is None
    model = Lectures(8)
    model.block_size = 8
    subject = Subject.load(model)
    assert subject.longest == subject.length == 8
    assert not any("longest" in note for note in subject.notes)


@pytest.mark.parametrize("limit", [*range(1, 64)])
def test_the_longest_length_that_works_is_found(limit):
    tried = []

    def takes(length):
        tried.append(length)
        return length <= limit

    assert find_longest(takes) == limit
    assert len(tried) <= 13


def test_a_single_length_is_no_limit():
    assert find_longest(lambda length: length % 8 == 0) is None


def test_a_model_that_takes_one_token_is_told_so():
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 5)

        def forward(self, ids):
            if ids.shape[1] > 1:
                raise ValueError("one token, please")
            return self.table(ids)

    with pytest.raises(theodolite.fixtures.errors.SubjectError, match="a longer context"):
        theodolite.audit(One())
    assert torch.is_grad_enabled()
