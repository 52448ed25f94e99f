"""The reference in its styles, and a model written by hand, read like any other."""

import pytest

from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.mutants.hosts import TextHost
from theodolite.reference import GPT, GPTConfig, config, parameter_count


def anatomy_with(**choices):
    return anatomy_of(Subject.load(GPT(GPTConfig(**choices))))


def test_the_article_s_model_is_read_in_full():
    anatomy = anatomy_with()
    (layer, *_) = anatomy.attention
    assert anatomy.unread == {}
    assert all(layer.unread == {} for layer in anatomy.attention)
    assert (anatomy.layers, anatomy.width, layer.heads, layer.head_width) == (4, 128, 4, 32)
    assert layer.scale == pytest.approx(32**-0.5, rel=1e-5)
    assert layer.rotary.frequencies == pytest.approx(
        [1e4 ** (-i / 16) for i in range(16)], rel=1e-3
    )
    assert (anatomy.feed_forward[0].gated, anatomy.feed_forward[0].width) == (True, 344)
    assert anatomy.parameters.total == 810_624


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"kv_heads": 2, "tied": True},
        {"qk_norm": True, "bias": True},
        {"placement": "post", "norm": "layernorm", "feed_forward": "relu"},
        {"positions": "learned", "context": 32, "feed_forward": "gelu", "bias": True},
        {"positions": "sinusoidal"},
    ],
    ids=str,
)
def test_parameters_by_part_are_those_of_the_closed_formula(choices):
    shape = GPTConfig(width=48, heads=6, layers=3, **choices)
    count, parameters = parameter_count(shape), anatomy_of(Subject.load(GPT(shape))).parameters
    expected = {
        "embedding": count.embedding,
        "positions": count.positions,
        "attention": 3 * count.attention,
        "feed_forward": 3 * count.feed_forward,
        "norms": 3 * count.norms + count.final_norm,
        "head": count.head,
    }
    assert parameters.predicted == expected
    assert parameters.counted == {**expected, "other": 0}


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "none"])
def test_the_kind_of_positions_is_told(positions):
    assert anatomy_with(positions=positions).positions == positions


def test_gpt2_style_has_learned_positions_biases_and_a_tied_head():
    anatomy = anatomy_of(Subject.load(GPT(config.gpt2_style())))
    assert (anatomy.positions, anatomy.tied) == ("learned", True)
    assert anatomy.norm.kind == "layer"
    assert anatomy.norm.bias
    assert anatomy.biases.queries_keys_values
    assert anatomy.biases.attention_output
    assert anatomy.biases.feed_forward
    assert not anatomy.biases.head
    assert anatomy.feed_forward[0].activation == "gelu_tanh"


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_place_of_the_norms_is_told(placement):
    assert anatomy_with(placement=placement).assembly.placement == placement


def test_interpolated_rotation_and_soft_cap():
    layer = anatomy_with(rotary_interpolation=4.0, attention_softcap=20.0).attention[0]
    assert (layer.rotary.scaling, layer.rotary.factor) == ("linear", pytest.approx(4.0, rel=1e-4))
    assert layer.soft_cap == 20.0


def test_fused_and_explicit_attention_look_the_same():
    written, fused = anatomy_with(kv_heads=2), anatomy_with(kv_heads=2, fused=True)
    assert written.attention[0].kv_order == fused.attention[0].kv_order == "grouped"
    assert fused.attention[0].scale == pytest.approx(written.attention[0].scale, rel=1e-5)
    assert fused.parameters == written.parameters


@pytest.mark.parametrize("experts", [0, 4])
def test_a_model_written_by_hand(experts, tmp_path):
    settings = {"config.n_expert": experts} if experts else {}
    anatomy = anatomy_of(Subject.load(TextHost("by_hand").write(tmp_path), settings=settings))
    (layer, *_), (part, *_) = anatomy.attention, anatomy.feed_forward
    assert (anatomy.layers, anatomy.positions, anatomy.tied) == (2, "rotary", False)
    assert (layer.heads, layer.kv_heads, layer.kv_order) == (6, 2, "grouped")
    assert (layer.rotary.pairing, layer.rotary.width) == ("half", 8)
    assert (part.gated, part.activation, part.width) == (True, "silu", 128)
    assert (part.experts, part.active) == ((4, 2) if experts else (None, None))
    assert anatomy.unread == {}
