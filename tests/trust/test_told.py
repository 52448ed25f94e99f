"""One line changed in a right model: told for what it is."""

import pytest
import torch
from decoders import Encoder, Lectures, OneHead
from torch import nn

import theodolite


def failures(model, *select):
    report = theodolite.audit(model, select=list(select))
    return {check.id: check for check in report.failures}


def test_heads_by_themselves_that_do_not_scale_are_told_so():
    class Unscaled(OneHead):
        def forward(self, x):
            length = x.shape[1]
            scores = self.q(x) @ self.k(x).transpose(1, 2)
            hidden = self.triangle[:length, :length] == 0
            return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ self.v(x)

    model = Lectures(64)
    for block in model.blocks:
        block.heads = nn.ModuleList(Unscaled(64) for _ in block.heads)
    found = failures(model, "inside")["inside.scale"]
    assert found.cause == "scale-missing"
    assert "not scaled at all" in found.message


def test_a_table_of_which_one_row_is_read_is_seen():
    class First(Encoder):
        def forward(self, ids):
            mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
            x = self.tokens(ids) + self.wpe[:, :1]
            return self.head(self.body(x, mask=mask, is_causal=True))

    model = First(64)
    model.wpe, model.places = model.places, None
    assert failures(model, "positions")["positions.lookup"].cause == "positions-alike"


class Counts(Lectures):
    """Positions from the mask where one is given."""

    first = 0

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        if position_ids is None and attention_mask is not None:
            position_ids = (attention_mask.long().cumsum(-1) - 1 + self.first).clamp(min=0)
        elif position_ids is None:
            position_ids = torch.arange(input_ids.shape[1])
        x = self.tokens(input_ids) + self.places(position_ids)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        if attention_mask is not None:
            hidden = hidden | (attention_mask[:, None] == 0)
        for block in self.blocks:
            y = block.first(x)
            mixed = []
            for head in block.heads:
                scores = head.q(y) @ head.k(y).transpose(1, 2) / 8**0.5
                weights = scores.masked_fill(hidden, torch.finfo(x.dtype).min).softmax(-1)
                mixed.append(weights @ head.v(y))
            x = x + block.out(torch.cat(mixed, -1))
            x = x + block.narrow(block.wide(block.second(x)).relu())
        return self.head(self.norm(x))


@pytest.mark.parametrize("first", [0, 1])
def test_positions_that_a_mask_makes_count_from_one_are_told(first):
    model = Counts(64)
    model.first = first
    found = failures(model, "padding.ones")
    if first:
        assert found["padding.ones"].cause == "positions-from-one"
        assert found["padding.ones"].component == "position"
    else:
        assert not found
