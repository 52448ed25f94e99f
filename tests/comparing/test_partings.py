"""Models that differ in one thing: where, and by what relation."""

import json
from importlib.resources import files

import jsonschema
import pytest
import torch
import torch.nn.functional as F
from written import Biased, D, Decoder, OnePlus, Pairs, Tiled

import theodolite


class Unscaled(Decoder):
    scale = 1.0


class Base(Decoder):
    base = 500000.0


class Epsilon(Decoder):
    eps = 1e-5


class Leaking(Decoder):
    def visible(self, T):
        return torch.ones(T, T, dtype=torch.bool).tril(1)


class Windowed(Decoder):
    def visible(self, T):
        return super().visible(T).triu(-5)


class Gelu(Decoder):
    def network(self, layer, x):
        return layer["down"](F.gelu(layer["gate"](x)) * layer["up"](x))


class Swapped(Decoder):
    def network(self, layer, x):
        return layer["down"](F.silu(layer["up"](x)) * layer["gate"](x))


class NoSkip(Decoder):
    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            q, k, v = self.project(layer, layer["n1"](x))
            y = self.attend(self.rotate(q), self.spread(self.rotate(k)), self.spread(v))
            x = self.output(layer, y.transpose(1, 2).flatten(2))
            x = x + self.network(layer, layer["n2"](x))
        return self.head(self.last(x))


class Embedded(Decoder):
    def __init__(self):
        super().__init__()
        self.embed.register_forward_hook(lambda _m, _a, out: out * 48**0.5)


class Late(Decoder):
    """Wrong in its second layer alone."""

    def network(self, layer, x):
        out = super().network(layer, x)
        return 2 * out if layer is self.layers[1] else out


@pytest.mark.parametrize(
    ("b", "role", "layer", "component", "words"),
    [
        (Unscaled, "scores", 0, "scale", f"√{D}"),
        (Base, "queries", 0, "rope", "another rotary base: 500000 in b"),
        (Pairs, "queries", 0, "rope", "channels (2i, 2i + 1) together"),
        (Epsilon, "attention input", 0, "norm", "another epsilon: 1e-05 in b, 1e-06 in a"),
        (OnePlus, "attention input", 0, "norm", "(1 + w)"),
        (Leaking, "mask", 0, "mask", "sees later tokens"),
        (Windowed, "mask", 0, "mask", "b hides"),
        (Gelu, "hidden", 0, "feed_forward", "GELU (erf) in b, SiLU in a"),
        (Swapped, "hidden", 0, "feed_forward", "activates the other branch"),
        (NoSkip, "stream before feed-forward", 0, "residual", "no skip connection"),
        (Embedded, "stream", 0, "embedding", "√48, the width of the stream"),
        (Late, "last stream", None, "residual", "b adds 2 times the branch to the stream"),
        (Tiled, "scores", 0, "heads", "key heads 0 1 0 1 0 1 in b, 0 0 0 1 1 1 in a"),
    ],
)
def test_a_difference_is_told_where_it_is_and_as_what(compared, b, role, layer, component, words):
    found = compared(Decoder, b)
    assert found.verdict == "parted"
    first = found.partings[0]
    assert (first.place.role, first.place.layer) == (role, layer), found.sentences()
    assert first.component == component
    assert words in first.relation
    assert len(found.partings) == 1, found.sentences()


class Two(Unscaled, Gelu):
    pass


def test_two_independent_differences_are_both_told(compared):
    roles = [parting.place.role for parting in compared(Decoder, Two).partings]
    assert roles == ["scores", "hidden"]


def test_a_bias_that_b_lacks_is_told(compared):
    found = compared(Biased, Decoder)
    assert found.verdict == "parted"
    assert "a adds a bias to its queries, b has none" in found.partings[0].relation


def test_the_document_follows_the_published_schema(compared):
    schema = json.loads(files("theodolite").joinpath("schemas/comparison.schema.json").read_text())
    for b in (Decoder, Unscaled):
        document = json.loads(json.dumps(compared(Decoder, b).to_dict(), allow_nan=False))
        jsonschema.validate(document, schema)


def test_parted_models_end_a_test(compared):
    with pytest.raises(theodolite.comparison.PartedError, match="scores of layer 0"):
        compared(Decoder, Unscaled).raise_for_partings()
    compared(Decoder, Decoder).raise_for_partings()


def test_a_convention_that_differs_under_the_same_names_is_told_as_one(compared):
    """Halves and pairs part by name; with rows of each head in another order they do not."""
    notes = compared(Decoder, Pairs).to_dict()["notes"]
    assert any("it is a convention that differs" in note for note in notes)
    assert not any("convention" in note for note in compared(Decoder, Unscaled).to_dict()["notes"])


class Detached(Decoder):
    """Equal forwards; half of the network's gradient is lost."""

    def network(self, layer, x):
        out = super().network(layer, x)
        return (out + out.detach()) / 2


def test_models_that_are_equal_forwards_and_not_backwards_part(compared):
    found = compared(Decoder, Detached)
    assert found.verdict == "parted"
    assert [parting.component for parting in found.partings] == ["gradient"]
    document = found.to_dict()
    assert document["partings"][0]["role"].startswith("gradient by layers.")
