"""Where skips are added, and whether a block has a class at all, is a matter of style."""

import pytest
import torch
from decoders import WIDTH, AddedOutside, Branch, Lectures, Rows
from torch import nn

import theodolite

RESIDUAL = ["residual", "assembly"]


def outcomes(model):
    return {check.id: check for check in theodolite.audit(model, select=RESIDUAL).checks}


@pytest.mark.parametrize("make", [AddedOutside, Rows, Lectures])
def test_every_style_of_adding_passes(make):
    report = theodolite.audit(make(64))
    assert not report.failures


def test_a_skip_that_the_parent_adds_is_judged():
    found = outcomes(AddedOutside(64))
    judged = ("residual.identity", "residual.sum", "assembly.final_norm", "assembly.order")
    assert {found[name].outcome for name in judged} == {"passed"}


def test_a_single_block_whose_skip_the_parent_adds_passes():
    model = AddedOutside(64)
    del model.blocks[1:]
    assert not theodolite.audit(model, select=RESIDUAL).failures


def test_a_parent_that_adds_no_skip_is_seen():
    class NoSkip(AddedOutside):
        def forward(self, ids):
            x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    assert outcomes(NoSkip(64))["residual.identity"].cause == "no-skip"


def test_a_skip_that_is_added_twice_is_seen():
    class Twice(Branch):
        def forward(self, x):
            return x + super().forward(x)

    model = AddedOutside(64)
    model.blocks = nn.ModuleList(Twice() for _ in range(3))
    assert outcomes(model)["residual.identity"].outcome == "failed"


def test_a_missing_norm_before_the_head_is_seen_behind_added_blocks():
    model = AddedOutside(64)
    model.norm = nn.Identity()
    assert outcomes(model)["assembly.final_norm"].cause == "no-final-norm"


def test_a_projection_beside_the_heads_belongs_to_attention():
    assert torch.is_tensor(Lectures(8).blocks[0].out.weight)
    found = outcomes(Lectures(64))["residual.sum"]
    assert found.outcome == "not_applicable", WIDTH
