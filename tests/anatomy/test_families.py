"""What is measured of small models of many families is what their configuration says."""

import pytest

from theodolite.fixtures.anatomy.measure import anatomy_of

pytest.importorskip("transformers")

FAMILIES = {
    # family: (positions, norm, gain, placement, parallel, gated, biased projections of q, k, v)
    "llama": ("rotary", "rms", "weight", "pre", False, True, False),
    "mistral": ("rotary", "rms", "weight", "pre", False, True, False),
    "mixtral": ("rotary", "rms", "weight", "pre", False, True, False),
    "qwen2": ("rotary", "rms", "weight", "pre", False, True, True),
    "qwen3": ("rotary", "rms", "weight", "pre", False, True, False),
    "qwen3_moe": ("rotary", "rms", "weight", "pre", False, True, False),
    "gemma": ("rotary", "rms", "1 + weight", "pre", False, True, False),
    "gemma2": ("rotary", "rms", "1 + weight", "sandwich", False, True, False),
    "gemma3_text": ("rotary", "rms", "1 + weight", "sandwich", False, True, False),
    "gpt_oss": ("rotary", "rms", "weight", "pre", False, True, True),
    "granite": ("rotary", "rms", "weight", "pre", False, True, False),
    "glm4": ("rotary", "rms", "weight", "sandwich", False, True, False),
    "olmo2": ("rotary", "rms", "weight", "output", False, True, False),
    "phi": ("rotary", "layer", "weight", "pre", True, False, True),
    "phi3": ("rotary", "rms", "weight", "pre", False, True, False),
    "gptj": ("rotary", "layer", "weight", "pre", True, False, False),
    "gpt_neox": ("rotary", "layer", "weight", "pre", True, False, True),
    "nemotron": ("rotary", "layer", "1 + weight", "pre", False, False, False),
    "starcoder2": ("rotary", "layer", "weight", "pre", False, False, True),
    "smollm3": ("rotary", "rms", "weight", "pre", False, True, False),
    "cohere": ("rotary", "layer", "weight", "pre", True, True, False),
    "cohere2": ("rotary", "layer", "weight", "pre", True, True, False),
    "deepseek_v3": ("rotary", "rms", "weight", "pre", False, True, False),
    "falcon": ("rotary", "layer", "weight", "pre", True, False, False),
    "gpt2": ("learned", "layer", "weight", "pre", False, False, True),
    "gpt_neo": ("learned", "layer", "weight", "pre", False, False, False),
    "opt": ("learned", "layer", "weight", "pre", False, False, True),
    "biogpt": ("learned", "layer", "weight", "pre", False, False, True),
    "openai-gpt": ("learned", "layer", "weight", "post", False, False, True),
    "xglm": ("sinusoidal", "layer", "weight", "pre", False, False, True),
    "bloom": ("alibi", "layer", "weight", "pre", False, False, True),
    "mpt": ("alibi", "layer", "weight", "pre", False, False, False),
}
ALSO_SDPA = {
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma3_text", "granite", "glm4",
    "olmo2", "phi", "phi3", "gptj", "gpt_neox", "nemotron", "starcoder2", "smollm3", "cohere",
    "cohere2", "deepseek_v3", "falcon", "gpt2", "opt", "biogpt",
}  # fmt: skip
CASES = [(family, "eager") for family in FAMILIES] + [(f, "sdpa") for f in sorted(ALSO_SDPA)]


@pytest.fixture(params=CASES, ids="-".join)
def case(request, load):
    family, implementation = request.param
    subject = load(f"hf:{family}", attn_implementation=implementation)
    return family, subject.model.config, anatomy_of(subject)


def one_of(config, *names, default=None):
    return next((value for n in names if (value := getattr(config, n, None)) is not None), default)


def test_the_kinds_are_those_of_the_family(case):
    family, _, anatomy = case
    positions, norm, gain, placement, parallel, gated, biased = FAMILIES[family]
    assert anatomy.positions == positions
    assert (anatomy.norm.kind, anatomy.norm.gain) == (norm, gain)
    assert (anatomy.assembly.placement, anatomy.assembly.parallel) == (placement, parallel)
    assert {part.gated for part in anatomy.feed_forward} == {gated}
    assert anatomy.biases.queries_keys_values == (biased or family == "glm4")


def test_the_shape_is_the_configured_one(case):
    family, config, anatomy = case
    width = one_of(config, "hidden_size", "n_embd", "d_model")
    heads = one_of(config, "num_attention_heads", "n_head", "n_heads")
    assert anatomy.width == width
    assert anatomy.layers == one_of(config, "num_hidden_layers", "n_layer", "n_layers")
    assert anatomy.of_all_layers("heads") == heads
    if family == "deepseek_v3":
        width_of_head = config.qk_nope_head_dim + config.qk_rope_head_dim
        assert anatomy.of_all_layers("value_width") == config.v_head_dim
    else:
        width_of_head = one_of(config, "head_dim", default=width // heads)
        kv_heads = 1 if family == "falcon" else one_of(config, "num_key_value_heads", default=heads)
        assert anatomy.of_all_layers("kv_heads") == kv_heads
        assert anatomy.of_all_layers("kv_order") == ("grouped" if 1 < kv_heads < heads else None)
    assert anatomy.of_all_layers("head_width") == width_of_head
    assert anatomy.tied == config.tie_word_embeddings
    assert anatomy.dtype == "float32"


def test_the_norm_adds_the_configured_eps(case):
    family, config, anatomy = case
    names = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
    eps = one_of(config, *names)
    if family == "biogpt":
        eps = 1e-5  # its code builds nn.LayerNorm without the configured 1e-12
    if eps is not None:
        assert anatomy.norm.eps == pytest.approx(eps, rel=1e-3)


def test_every_part_holds_the_parameters_that_its_shape_needs(case):
    _, _, anatomy = case
    parameters = anatomy.parameters
    assert parameters.unregistered == ()
    assert parameters.other == ()
    for part, predicted in parameters.predicted.items():
        assert parameters.counted[part] == predicted, part
    assert sum(parameters.counted.values()) == parameters.total


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gemma3_text", "cohere2", "gpt_oss"])
def test_windows_are_seen_layer_by_layer(load, family):
    subject = load(f"hf:{family}", attn_implementation="eager")
    config = subject.model.config
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * 3
    expected = [config.sliding_window if kind == "sliding_attention" else None for kind in kinds]
    assert [layer.window for layer in anatomy_of(subject).attention] == expected
    assert 8 in expected


def test_a_layer_without_positions_is_told_from_its_neighbours(load):
    kinds = [layer.positions for layer in anatomy_of(load("hf:cohere2")).attention]
    assert kinds == ["rotary", "rotary", "none"]


@pytest.mark.parametrize(
    ("family", "facts"),
    [
        ("llama", ("half", 8, 0, 10_000)),
        ("gptj", ("interleaved", 4, 0, 10_000)),
        ("glm4", ("interleaved", 4, 0, 10_000)),
        ("phi", ("half", 4, 0, 10_000)),
        ("cohere", ("interleaved", 8, 0, 500_000)),
        ("mixtral", ("half", 8, 0, 1_000_000)),
        ("deepseek_v3", ("half", 4, 8, 10_000)),
    ],
)
def test_pairing_width_offset_and_base_are_read_off_the_queries(load, family, facts):
    for layer in anatomy_of(load(f"hf:{family}")).attention:
        rotary = layer.rotary
        assert (rotary.pairing, rotary.width, rotary.offset) == facts[:3]
        assert rotary.base == pytest.approx(facts[3], rel=1e-4)
        assert rotary.scaling == "none"


@pytest.mark.parametrize(
    ("parameters", "scaling", "factor"),
    [
        ({"rope_type": "linear", "factor": 4.0}, "linear", 4.0),
        (
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 128,
            },
            "by frequency",
            8.0,
        ),
    ],
)
def test_scaled_rotations_are_told_apart(load, parameters, scaling, factor):
    rope = {"rope_theta": 10_000.0, **parameters}
    anatomy = anatomy_of(
        load("hf:llama", head_dim=16, max_position_embeddings=256, rope_parameters=rope)
    )
    rotary = anatomy.attention[0].rotary
    assert (rotary.scaling, rotary.factor) == (scaling, pytest.approx(factor, rel=1e-3))
    assert rotary.base == pytest.approx(10_000, rel=1e-3)


def test_yarn_shows_its_frequencies_and_its_attention_factor(load):
    rotary = anatomy_of(load("hf:gpt_oss")).attention[0].rotary
    assert (rotary.scaling, rotary.base) == ("by frequency", pytest.approx(150_000, rel=1e-3))
    assert rotary.magnitude == pytest.approx(1.3466, rel=1e-4)


def test_experts_are_counted_and_so_are_those_at_work(load):
    mixtral = anatomy_of(load("hf:mixtral")).feed_forward
    assert {(p.experts, p.active, p.shared_width, p.width) for p in mixtral} == {(4, 2, 0, 136)}
    first, *others = anatomy_of(load("hf:deepseek_v3")).feed_forward
    assert first.experts is None
    assert {(p.experts, p.active, p.shared_width) for p in others} == {(4, 2, 136)}


def test_sinks_caps_and_normalised_queries_are_seen(load):
    assert anatomy_of(load("hf:gpt_oss")).of_all_layers("sinks") == 1
    assert anatomy_of(load("hf:gemma2")).of_all_layers("soft_cap") == 50.0
    assert anatomy_of(load("hf:qwen3")).of_all_layers("qk_norm") is True
    assert anatomy_of(load("hf:llama")).of_all_layers("qk_norm") is False


def test_a_rotation_that_a_norm_follows_is_read_before_the_norm(load):
    anatomy = anatomy_of(load("hf:hunyuan_v1_dense"))
    assert anatomy.of_all_layers("qk_norm") is True
    for layer in anatomy.attention:
        assert layer.rotary.base == pytest.approx(10_000, rel=1e-3)


def test_alibi_shows_the_slope_of_each_head(load):
    slopes = anatomy_of(load("hf:bloom", n_head=8, hidden_size=64)).attention[0].slopes
    assert slopes == pytest.approx([2.0 ** -(h + 1) for h in range(8)], rel=1e-3)


def test_activations_are_told_from_their_approximations(load):
    activations = {"gpt2": "gelu_tanh", "falcon": "gelu", "opt": "relu", "nemotron": "relu2"}
    for family, name in (activations | {"llama": "silu", "gpt_oss": "quick_gelu"}).items():
        assert {part.activation for part in anatomy_of(load(f"hf:{family}")).feed_forward} == {name}


def test_a_model_without_attention_says_so(load):
    anatomy = anatomy_of(load("hf:mamba"))
    assert anatomy.layers == 0
    assert anatomy.positions is None
    assert "no attention" in anatomy.unread["attention"]
