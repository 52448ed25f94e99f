"""What a subject says of itself, in plain words, is held against it, however it was given."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from decoders import Lectures, Rotary, Sizes, rotary
from torch import nn

import theodolite
from theodolite.fixtures.subject.subject import Subject


def says(report):
    return {check.id: check.message for check in report.failures}


def words(model):
    return dict(Subject.load(model).words.values)


def grouped(**fields):
    return Rotary(Sizes(**fields))


def test_a_kept_configuration_declares_what_is_plain():
    subject = Subject.load(grouped(rope_theta=500.0, norm_eps=1e-3))
    assert subject.words.values == {
        "rope_base": 500.0, "kv_heads": 2, "norm_eps": 1e-3, "tied": False,
    }  # fmt: skip
    assert subject.words.sources["rope_base"] == "config.rope_theta = 500.0"


def test_a_model_that_does_as_it_says_passes():
    report = theodolite.audit(grouped(rope_theta=500.0, norm_eps=1e-3), select="declared")
    assert not says(report)
    judged = {check.id for check in report.checks if check.outcome == "passed"}
    assert {"declared.rope", "declared.norm", "declared.shape", "declared.tied"} <= judged


@pytest.mark.parametrize(
    ("field", "value", "check"),
    [
        ("rope_theta", 500.0, "declared.rope"),
        ("n_kv_heads", 3, "declared.shape"),
        ("norm_eps", 1e-3, "declared.norm"),
        ("tie", True, "declared.tied"),
    ],
)
def test_a_model_that_does_not_is_told_its_own_words(field, value, check):
    model = grouped()
    model.config = replace(model.config, **{field: value})
    found = says(theodolite.audit(model, select="declared"))
    assert set(found) == {check}
    assert f"the model itself says (config.{field} = {value!r})" in found[check]


@pytest.mark.parametrize(
    "keep",
    [
        lambda fields: fields,
        lambda fields: SimpleNamespace(**fields),
        lambda fields: {"model": fields},
    ],
    ids=["mapping", "namespace", "nested"],
)
def test_configurations_of_every_kind_are_read(keep):
    model = Lectures(64)
    model.config = keep({"weight_tying": True, "n_layer": 2})
    assert words(model) == {"tied": True}


def test_arguments_of_the_constructor_are_words():
    class Ties(Lectures):
        def __init__(self, context: int = 64, tie_weights: bool = True) -> None:
            super().__init__(context)
            self.head.bias = None if tie_weights else self.head.bias

    found = says(theodolite.audit(Ties, select="declared"))
    assert "tie_weights = True" in found["declared.tied"]
    assert not says(theodolite.audit(Ties, select="declared", settings={"tie_weights": False}))


def test_an_argument_of_the_constructor_that_changes_nothing_is_advice():
    class Unused(Lectures):
        def __init__(self, context: int = 64, n_kv_heads: int = 2) -> None:
            super().__init__(context)

    report = theodolite.audit(Unused, select="declared")
    assert not says(report)
    assert any("argument n_kv_heads of the constructor changes nothing" in n for n in report.notes)


@pytest.mark.parametrize(
    "fields",
    [
        {"base": 2.0, "eps": 0.5, "theta": 3.0},
        {"rope_theta": 500.0, "rope_scaling": {"type": "yarn", "factor": 4.0}},
        {"rope_theta": 500.0, "rope_local_base_freq": 100.0},
        {"rope_theta": 500.0, "rotary_base": 600.0},
        {"sliding_window": 4, "use_sliding_window": False},
        {"sliding_window": 4, "layer_types": ["full_attention"]},
        {"num_experts_per_tok": 2},
        {"n_kv_heads": None, "tie": None, "norm_eps": 0.0},
        {"activation": "my own"},
    ],
    ids=str,
)
def test_words_whose_meaning_is_not_plain_declare_nothing(fields):
    model = Lectures(64)
    model.config = fields
    assert not words(model)


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_theta": 500.0},
        {"num_experts": 8, "num_experts_per_tok": 2},
        {"sliding_window": 4096},
    ],
    ids=str,
)
def test_a_field_for_what_the_model_has_not_accuses_nobody(fields):
    model = Lectures(64)
    model.config = fields
    assert not says(theodolite.audit(model, select="declared"))


def test_a_window_that_is_said_and_not_there_is_told():
    model = Lectures(64)
    model.config = {"sliding_window": 5}
    assert "5 keys" in says(theodolite.audit(model, select="declared"))["declared.window"]


@pytest.mark.parametrize("counts_itself", [True, False])
def test_a_window_counts_its_query_or_not(counts_itself):
    model = Lectures(64)
    model.config = {"sliding_window": 5}
    for block in model.blocks:
        for head in block.heads:
            head.triangle = head.triangle.triu(-4 if counts_itself else -5)
    assert not says(theodolite.audit(model, select="declared"))


def test_gelu_is_said_of_both_its_forms():
    class Approximate(Lectures):
        def forward(self, ids):
            return super().forward(ids)

    model = Approximate(64)
    model.config = {"activation": "gelu"}
    for block in model.blocks:
        block.wide = nn.Sequential(block.wide, nn.GELU(approximate="tanh"))
    assert words(model) == {"activation": "gelu"}


def test_what_is_declared_goes_before_what_is_said():
    model = grouped()
    model.config = replace(model.config, rope_theta=500.0)
    report = theodolite.audit(model, select="declared", declare={"rope_base": 10000.0})
    assert not says(report)


def test_a_context_that_is_said_under_another_name_is_known():
    @dataclass
    class Small:
        block_size: int = 10

    model = Lectures(10)
    model.cfg = Small()
    subject = Subject.load(model)
    assert subject.longest == 10
    assert subject.found_longest is None


def test_a_series_that_ends_at_its_base_is_another_convention():
    model = grouped(rope_theta=100.0, dim=48)
    steps = 100.0 ** -torch.linspace(0, 1, 4)
    model.angles = torch.outer(torch.arange(64.0), steps)
    assert "declared.rope" not in says(theodolite.audit(model, select="declared"))


transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("family", "key"),
    [("GPTNeo", "scale"), ("Gemma2", "soft_cap"), ("Llama", "rope_frequencies")],
)
@pytest.mark.parametrize("how", ["live", "factory"])
def test_a_live_model_of_the_library_has_its_configuration(family, key, how):
    from theodolite.fixtures.loading.huggingface.model import load_huggingface
    from theodolite.fixtures.loading.trying import Manner

    def make():
        return load_huggingface(f"{family}ForCausalLM", {}, Manner()).model

    by_name = Subject.load(f"hf:{family}ForCausalLM")
    given = Subject.load(make() if how == "live" else make)
    assert key in given.declarations
    assert given.declarations == by_name.declarations
    assert given.sources == by_name.sources


def test_a_live_gpt_neo_passes():
    from theodolite.fixtures.loading.huggingface.model import load_huggingface
    from theodolite.fixtures.loading.trying import Manner

    model = load_huggingface("gpt_neo", {}, Manner()).model
    assert not says(theodolite.audit(model, select=["inside", "declared", "generation"]))


def test_a_model_on_the_library_s_base_class_keeps_its_own_words():
    class Config(transformers.PretrainedConfig):
        model_type = "own"

        def __init__(self, n_kv_heads=2, **more):
            super().__init__(**more)
            self.n_kv_heads = n_kv_heads

    model = rotary(64)
    model.config = Config()
    assert "tied" not in words(model) or not words(model)["tied"]
    assert words(model)["kv_heads"] == 2
