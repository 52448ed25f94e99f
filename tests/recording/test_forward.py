"""One watched forward: what its modules were given and gave, and what is put in their place."""

import pytest
import torch
from torch import nn

from theodolite.fixtures.recording.exchange import (
    result_as_leaf,
    results_exchanged,
    streams_exchanged,
    with_first,
)
from theodolite.fixtures.recording.forward import watch
from theodolite.fixtures.recording.observation import observe

IDS = torch.tensor([[0, 1, 2], [3, 4, 0]])


class Adds(nn.Module):
    """Adds to what it was given in place."""

    def forward(self, x):
        return x.add_(1.0)


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        self.inner(x)
        raise ValueError("not today")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.positions = nn.Embedding(3, 4)
        self.adds = Adds()
        self.raises = Raises()
        self.head = nn.Linear(4, 5, bias=False)
        self.unread = nn.Linear(4, 5)

    def forward(self, ids):
        x = self.adds(self.table(ids) + self.positions(torch.arange(3)))
        try:
            self.raises(x=x)
        except ValueError:
            x = x @ self.head.weight.new_ones(4, 4).mul(self.head.weight.shape[0])
        return self.head(x)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


@pytest.fixture
def forward(model):
    return watch(model, lambda: model(IDS), IDS)


def test_what_a_module_was_given_is_kept_as_it_was_before_the_call(forward):
    (call,) = [call for call in forward.calls if call.path == "adds"]
    assert torch.equal(call.gave, call.given + 1)


def test_calls_are_kept_in_the_order_in_which_they_ended(forward):
    paths = [call.path for call in forward.calls]
    assert paths == ["table", "positions", "adds", "raises.inner", "head", ""]
    assert [call.began for call in forward.calls] == [1, 2, 3, 5, 6, 0]


def test_a_product_belongs_to_its_module_after_another_has_raised(forward):
    products = [(product.weight, product.module) for product in forward.products]
    assert products == [
        ("raises.inner.weight", "raises.inner"),
        ("head.weight", ""),
        ("head.weight", "head"),
    ]


def test_the_embedding_is_the_module_that_was_given_the_ids(forward):
    assert forward.embedding().path == "table"


def test_values_for_every_token_are_found_in_either_layout(forward):
    flat, cosines, mask = torch.ones(6, 2), torch.ones(3, 2), torch.ones(2, 3, 3, dtype=torch.bool)
    found = forward.per_token([{"x": flat}, (cosines, IDS), mask])
    assert [tuple(tensor.shape) for tensor in found] == [(2, 3, 2), (2, 3)]


def test_a_parameter_whose_shape_alone_is_asked_for_is_not_read(model):
    with observe(model) as seen:
        assert model.unread.weight.shape[0] == 5
        model(IDS)
    assert id(model.head.weight) in seen.read
    assert id(model.unread.weight) not in seen.read


def test_nothing_is_left_on_the_model(model):
    before = model(IDS)
    watch(model, lambda: model(IDS), IDS)
    assert torch.equal(model(IDS), before)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_stream_is_exchanged_and_what_stood_there_is_told(model):
    with streams_exchanged(model, {"head": torch.zeros_like}, IDS) as before:
        assert not model(IDS).any()
    (stood,) = before
    assert torch.equal(model.head(stood), model(IDS))


def test_one_tensor_in_three_places_stays_one():
    class Attention(nn.Module):
        def forward(self, query, *, key):
            return query is key

    attention, x = nn.ModuleDict({"a": Attention()}), torch.ones(2, 3, 4)
    with streams_exchanged(attention, {"a": torch.clone}, IDS):
        assert attention["a"](x, key=x)


def test_a_result_is_exchanged(model):
    with results_exchanged(model, {"head": lambda given, result: result + given.sum() * 0 + 7}):
        changed = model(IDS)
    assert torch.equal(changed, model(IDS) + 7)


def test_the_first_result_is_a_leaf_to_differentiate_by(model):
    with result_as_leaf(model, "table") as leaves:
        model(IDS).sum().backward()
        model(IDS)
    (leaf,) = leaves
    assert leaf.grad.shape == (2, 3, 4)


def test_the_first_floating_argument_is_replaced():
    x, y = torch.zeros(1), torch.ones(1)
    args, keywords = with_first(((IDS,), {"mask": None, "x": x, "y": y}), torch.full((1,), 2.0))
    assert args == (IDS,)
    assert (float(keywords["x"]), float(keywords["y"])) == (2.0, 1.0)
