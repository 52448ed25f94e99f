"""Settings and meanings."""

from types import SimpleNamespace

import pytest

from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.argument_meanings import ATTEMPTS, meaning, values_for
from theodolite.fixtures.loading.plan import Slot
from theodolite.fixtures.loading.settings import parse_settings, write_settings
from theodolite.fixtures.loading.small_values import choose, match_settings


def test_a_value_is_read_as_json_or_else_as_a_string():
    assert parse_settings(["a=1", "b.c=false", "d=rms", "e=[1, 2]", "f=a=b", "g="]) == {
        "a": 1, "b.c": False, "d": "rms", "e": [1, 2], "f": "a=b", "g": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("False", False), ("None", None), ("(1, 2)", (1, 2)), ("{'a': None}", {"a": None}),
        (" 7 ", 7), ("1_000", 1000), ("1e-3", 1e-3), ("none", "none"), ("...", "..."),
        ("b'x'", "b'x'"), ("1j", "1j"), ("'3'", "3"), ('"False"', "False"), ("7b", "7b"),
    ],
)  # fmt: skip
def test_python_literals_are_read_as_json_is(text, value):
    read = parse_settings([f"x={text}"])["x"]
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("x=FALSE", "write x=false"), ("x=nULL", "write x=null"), ("x=[1, 2", "complete it"),
        ("x={1, 2}", "complete it"), ("x='a", "complete it"), ("x=[a, b]", "complete it"),
    ],
)  # fmt: skip
def test_no_literal_becomes_a_string_in_silence(pair, says):
    with pytest.raises(UsageError, match=says):
        parse_settings([pair])


@pytest.mark.parametrize(
    "value",
    [
        1, 2.5, None, True, "rms", "True", "3", "[1", "FALSE", "", " a ", [1, [None, "x"]], (1, 2),
        {"a": (1,)}, {"é": "ü"}, float("inf"), "it's", 'a"b',
    ],
)  # fmt: skip
def test_what_is_written_is_read_back(value):
    assert parse_settings(write_settings({"a.b": value})) == {"a.b": value}


@pytest.mark.parametrize("pair", ["vocab", "=3", "", "a..b=1", ".=1", "a.=1"])
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


SLOTS = [
    Slot("config.model", {"vocab_size": 33, "rope": SimpleNamespace(base=10)}),
    Slot("config.bias", default=True),
]


def test_dots_lead_into_a_default():
    keys = {"config.model.vocab_size": 97, "model.rope.base": 5}
    model = match_settings(keys, SLOTS, ["config."], [])["config.model"]
    assert (model["vocab_size"], model["rope"].base) == (97, 5)
    assert SLOTS[0].default["vocab_size"] == 33
    assert SLOTS[0].default["rope"].base == 10


def test_dots_that_lead_nowhere_are_refused():
    with pytest.raises(UsageError, match=r"vocab_sze is not in it. Did you mean vocab_size\?"):
        match_settings({"config.model.vocab_sze": 97}, SLOTS, ["config."], [])


def test_a_mapping_reaches_every_level():
    slots = [Slot("config.model.width", 8), Slot("config.lr", 1)]
    given = {"config": {"model": {"width": 16}}}
    assert match_settings(given, slots, [], []) == {"config.model.width": 16}


def test_a_word_is_no_truth_value():
    with pytest.raises(UsageError, match=r"give config\.bias=true or config\.bias=false"):
        choose(SLOTS, {"config.bias": "no"}, ATTEMPTS[0], shrink=False)
