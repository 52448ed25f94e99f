"""Models that are one function, whichever way they are written, and their weights' map."""

import pytest
import torch
from written import Biased, Decoder, Fused, FusedOnePlus, FusedTiled, Kernel, Pairs

import theodolite
from theodolite.fixtures.comparing.map_file import read_map
from theodolite.fixtures.judging.rounding import random_walk


@pytest.mark.parametrize("other", [Kernel, Fused, FusedOnePlus, FusedTiled, Biased])
def test_another_way_of_writing_is_equal_both_ways_or_told(compared, other):
    found = compared(Decoder, other)
    assert found.verdict == "equal", found.sentences()
    weights = found.to_dict()["weights"]
    assert weights["mapped"] == weights["of"]
    assert not weights["asked"]


@pytest.mark.parametrize("other", [Fused, FusedOnePlus, FusedTiled])
def test_and_back(compared, other):
    assert compared(other, Decoder).verdict == "equal"


def test_the_two_conventions_of_rotation_are_a_permutation_of_rows(compared):
    """Fused has other names than Decoder, so that its weights go by what each is for."""

    class FusedPairs(Fused):
        def rotate(self, x):
            return Pairs.rotate(self, x)

    found = theodolite.compare(FusedPairs, Decoder)
    assert found.verdict == "equal", found.sentences()
    hows = {each["b"]: each["how"] for each in found.to_dict()["weights"]["map"]}
    assert "paired otherwise" in hows["layers.0.q.weight"]
    assert "paired otherwise" not in hows["layers.0.v.weight"]


def test_weights_that_are_written_are_those_of_b_in_float64(tmp_path):
    torch.manual_seed(3)
    a = Decoder()
    found = theodolite.compare(a, Fused)
    found.write_weights(tmp_path / "b.safetensors")
    b = Fused()
    from safetensors.torch import load_file

    b.load_state_dict(load_file(tmp_path / "b.safetensors"))
    ids = torch.randint(61, (2, 9))
    logits = a.double()(ids)
    bound = random_walk(a, logits, torch.float64)
    torch.testing.assert_close(logits, b.double()(ids), rtol=0, atol=bound)


def test_a_map_that_was_found_is_read_back(tmp_path, compared):
    found = compared(Decoder, Fused)
    file = tmp_path / "map.toml"
    file.write_text(found.map)
    assert read_map(file)["layers.0.qkv.weight"].startswith("layers.0.q.weight[0:24]; ")
    again = theodolite.compare(Decoder, Fused, map=file)
    assert again.verdict == "equal"


def test_a_wrong_map_is_a_parting():
    swapped = {"layers.0.k.weight": "layers.0.v.weight"}
    found = theodolite.compare(Decoder, Kernel, map=swapped)
    assert found.verdict == "parted"
    assert found.partings[0].place.role == "projected keys"


def test_neither_model_is_changed():
    a, b = Decoder(), Fused()
    before = [{k: v.clone() for k, v in m.state_dict().items()} for m in (a, b)]
    theodolite.compare(a, b)
    for model, held in zip((a, b), before, strict=True):
        assert all(torch.equal(held[k], v) for k, v in model.state_dict().items())


def test_key_heads_in_turns_are_a_reordering_that_is_said(compared):
    """Fused is other names: its tiled form goes by what each is for, and the order is told."""
    weights = compared(FusedTiled, Decoder).to_dict()["weights"]
    hows = {each["b"]: each["how"] for each in weights["map"]}
    assert "the heads in the order of their groups" in hows["layers.0.q.weight"]


class Negated(Decoder):
    """Queries and keys with another sign, and positions from 1 on: their products are the same."""

    def rotate(self, x):
        moved = super().rotate(torch.cat([x[..., :1, :], x], dim=-2))
        return -moved[..., 1:, :]


def test_queries_and_keys_that_are_others_alike_do_not_part():
    found = theodolite.compare(Decoder, Negated)
    assert found.verdict == "equal", found.sentences()
