"""Settings and meanings."""

import pytest

from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.argument_meanings import ATTEMPTS, meaning, values_for
from theodolite.fixtures.loading.settings import parse_settings


def test_a_value_is_read_as_json_or_else_as_a_string():
    assert parse_settings(["a=1", "b.c=false", "d=rms", "e=[1, 2]", "f=a=b", "g="]) == {
        "a": 1, "b.c": False, "d": "rms", "e": [1, 2], "f": "a=b", "g": "",
    }  # fmt: skip


@pytest.mark.parametrize("pair", ["vocab", "=3", ""])
def test_a_setting_without_key_or_value_is_refused(pair):
    with pytest.raises(UsageError, match="write KEY=VALUE"):
        parse_settings([pair])


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("vocab_size", "vocabulary"), ("nVocab", "vocabulary"), ("config.n_embd", "width"),
        ("num_hidden_layers", "layers"), ("N", "layers"), ("n_kv_heads", "kv_heads"),
        ("block_size", "context"), ("attn_pdrop", "dropout"), ("flavour", None), ("n", None),
    ],
)  # fmt: skip
def test_a_name_has_its_meaning_in_any_spelling(name, means):
    assert meaning(name) == means


def test_a_default_of_another_kind_means_something_else():
    assert meaning("heads", [1, 2]) is None
    assert meaning("dropout", True) is None
    assert meaning("layers", 2.5) is None


def test_the_first_sizes_are_awkward():
    sizes = ATTEMPTS[0]
    group = sizes.heads // sizes.kv_heads
    assert 1 < sizes.kv_heads < sizes.heads
    assert group != sizes.kv_heads
    assert len({sizes.layers, sizes.heads, sizes.kv_heads, sizes.head_width}) == 4


@pytest.mark.parametrize("width", [16, 20, 48, 64, 96, 100, 7])
@pytest.mark.parametrize("sizes", ATTEMPTS)
def test_heads_divide_any_width_and_kv_heads_divide_heads(width, sizes):
    values = values_for(sizes, {"width": width})
    assert values["width"] == width
    assert width % values["heads"] == 0
    assert values["heads"] % values["kv_heads"] == 0
    assert values["heads"] * values["head_width"] == width
