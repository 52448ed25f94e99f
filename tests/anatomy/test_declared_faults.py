"""A model that does not have what its configuration, or a person, says: the check that is for it
fails, with the right component; and the model that has it passes."""

import copy
from dataclasses import replace

import pytest
import torch

import theodolite
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.judging.judgement import NotApplicable, PropertyFailure
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.checks import test_declared, test_parameters
from theodolite.reference import GPT, GPTConfig

modeling_llama = pytest.importorskip("transformers.models.llama.modeling_llama")


CHECKS = [
    *(check for name, check in vars(test_declared).items() if name.startswith("test_")),
    test_parameters.test_parameters_are_as_many_as_the_anatomy_predicts,
]


def failures(subject, **declare):
    """What the checks of declarations find, by their ids."""
    if not isinstance(subject, Subject):
        subject = Subject.load(subject, declarations=declare)
    found = {}
    for function in CHECKS:
        (marker,) = [mark for mark in function.pytestmark if mark.name == "claim"]
        try:
            function(subject)
        except PropertyFailure as failure:
            judgement = failure.judgement
            accused = judgement.component or marker.kwargs["component"]
            found[marker.kwargs["check"]] = replace(judgement, component=accused)
        except NotApplicable:
            continue
    return found


def only(found, check):
    assert list(found) == [check]
    return found[check]


def scaled_rope(**kind):
    return {"rope_theta": 500_000.0, **kind}


class WithOtherConfig:
    """Builds a class with one field of its configuration changed behind the model's back."""

    def __init__(self, monkeypatch, module, owner, field, value):
        original = getattr(module, owner).__init__

        def changed(self, config, *args, **kwargs):
            before = getattr(config, field)
            setattr(config, field, value)
            original(self, config, *args, **kwargs)
            setattr(config, field, before)

        monkeypatch.setattr(getattr(module, owner), "__init__", changed)


def test_a_correct_llama_has_all_that_it_declares():
    rope = scaled_rope()
    subject = Subject.load("hf:llama", settings={"rope_parameters": rope})
    assert failures(subject) == {}
    assert subject.sources["rope_frequencies"] == "rope_theta = 500000"


def with_other_rope(monkeypatch, owner, **changes):
    """Let a rotary embedding read other parameters than the configured ones."""
    original = owner.compute_default_rope_parameters

    def changed(config, *args, **kwargs):
        other = copy.deepcopy(config)
        other.rope_parameters.update(changes)
        return original(other, *args, **kwargs)

    monkeypatch.setattr(owner, "compute_default_rope_parameters", staticmethod(changed))


def test_a_base_that_is_ignored(monkeypatch):
    with_other_rope(monkeypatch, modeling_llama.LlamaRotaryEmbedding, rope_theta=10_000.0)
    subject = Subject.load("hf:llama", settings={"rope_parameters": scaled_rope()})
    check = only(failures(subject), "declared.rope")
    assert check.component == "rope"
    assert "rope_theta = 500000" in str(check)
    assert check.where["pair"] == 1


def test_a_scaling_that_is_ignored(monkeypatch):
    owner = modeling_llama.LlamaRotaryEmbedding
    rope = scaled_rope(rope_type="linear", factor=4.0)
    assert failures(Subject.load("hf:llama", settings={"rope_parameters": rope})) == {}
    monkeypatch.setitem(
        modeling_llama.ROPE_INIT_FUNCTIONS, "linear", owner.compute_default_rope_parameters
    )
    subject = Subject.load("hf:llama", settings={"rope_parameters": rope})
    assert only(failures(subject), "declared.rope").component == "rope"


def test_a_partial_rotation_that_is_ignored(monkeypatch):
    modeling = pytest.importorskip("transformers.models.phi.modeling_phi")
    with_other_rope(monkeypatch, modeling.PhiRotaryEmbedding, partial_rotary_factor=1.0)
    original = modeling.PhiAttention.__init__

    def changed(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self.rotary_ndims = self.head_dim

    monkeypatch.setattr(modeling.PhiAttention, "__init__", changed)
    check = only(failures("hf:phi"), "declared.rope")
    assert (check.component, check.cause) == ("rope", "rope-width")
    assert check.where["measured"] == 8


def yarn():
    return scaled_rope(
        rope_type="yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=32.0
    )


def test_yarn_is_as_configured():
    subject = Subject.load("hf:llama", settings={"rope_parameters": yarn(), "head_dim": 16})
    assert failures(subject) == {}


@pytest.mark.parametrize("power", [0, 2], ids=["dropped", "squared"])
def test_an_attention_factor_that_is_dropped_or_squared(monkeypatch, power):
    original = modeling_llama.LlamaRotaryEmbedding.__init__

    def changed(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self.attention_scaling = self.attention_scaling**power

    monkeypatch.setattr(modeling_llama.LlamaRotaryEmbedding, "__init__", changed)
    subject = Subject.load("hf:llama", settings={"rope_parameters": yarn(), "head_dim": 16})
    check = only(failures(subject), "declared.rope")
    assert (check.component, check.cause) == ("rope", "rope-magnitude-differs")


def test_a_window_that_one_backend_ignores(monkeypatch):
    modeling = pytest.importorskip("transformers.models.mistral.modeling_mistral")

    def without_window(*args, **kwargs):
        return modeling_llama.create_causal_mask(*args, **kwargs)

    for implementation in ("eager", "sdpa"):
        subject = Subject.load("hf:mistral", settings={"attn_implementation": implementation})
        assert failures(subject) == {}
    monkeypatch.setattr(modeling, "create_sliding_window_causal_mask", without_window)
    check = only(
        failures(Subject.load("hf:mistral", settings={"attn_implementation": "sdpa"})),
        "declared.window",
    )
    assert (check.component, check.cause) == ("window", "window-ignored")


def test_a_window_that_is_wider_than_the_usual_sequence():
    settings = {"sliding_window": 90, "max_position_embeddings": 256}
    assert failures(Subject.load("hf:mistral", settings=settings)) == {}
    subject = Subject.load("hf:mistral", settings=settings, declarations={"window": 91})
    assert only(failures(subject), "declared.window").cause == "window-differs"


def test_a_soft_cap_that_is_dropped(monkeypatch):
    modeling = pytest.importorskip("transformers.models.gemma2.modeling_gemma2")
    WithOtherConfig(monkeypatch, modeling, "Gemma2Attention", "attn_logit_softcapping", None)
    check = only(failures("hf:gemma2"), "declared.soft_cap")
    assert (check.component, check.cause) == ("scale", "soft-cap-ignored")


def test_a_scale_that_is_ignored(monkeypatch):
    modeling = pytest.importorskip("transformers.models.granite.modeling_granite")
    WithOtherConfig(monkeypatch, modeling, "GraniteAttention", "attention_multiplier", 0.5)
    assert only(failures("hf:granite"), "declared.scale").component == "scale"


def test_a_latent_attention_that_loses_yarn_s_factor_on_the_scale(monkeypatch):
    modeling = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")
    rope = {
        "rope_theta": 10_000.0, "rope_type": "yarn", "factor": 8.0, "mscale": 1.0,
        "mscale_all_dim": 1.0, "original_max_position_embeddings": 32,
    }  # fmt: skip
    settings = {"rope_parameters": rope, "attn_implementation": "eager"}
    assert failures(Subject.load("hf:deepseek_v3", settings=settings)) == {}
    original = modeling.DeepseekV3Attention.__init__

    def changed(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self.scaling = self.qk_head_dim**-0.5

    monkeypatch.setattr(modeling.DeepseekV3Attention, "__init__", changed)
    found = failures(Subject.load("hf:deepseek_v3", settings=settings))
    assert only(found, "declared.scale").component == "scale"


def test_a_tie_that_is_ignored():
    subject = Subject.load("hf:llama", settings={"tie_word_embeddings": True})
    assert failures(subject) == {}
    model = subject.model
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    untied = Subject.load(model, declarations={"tied": True})
    check = only(failures(untied), "declared.tied")
    assert (check.component, check.cause) == ("tying", "tie-ignored")


def test_an_activation_that_is_ignored(monkeypatch):
    WithOtherConfig(monkeypatch, modeling_llama, "LlamaMLP", "hidden_act", "gelu")
    check = only(failures("hf:llama"), "declared.feed_forward")
    assert (check.component, check.where["measured"]) == ("feed_forward", "gelu")


def test_experts_that_work_in_another_number(monkeypatch):
    modeling = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    WithOtherConfig(monkeypatch, modeling, "MixtralTopKRouter", "num_experts_per_tok", 1)
    WithOtherConfig(monkeypatch, modeling, "MixtralSparseMoeBlock", "num_experts_per_tok", 1)
    check = only(failures("hf:mixtral"), "declared.feed_forward")
    assert (check.component, check.cause) == ("moe", "active-experts-differs")


def test_layers_in_a_plain_list_are_not_registered():
    class Unregistered(GPT):
        def __init__(self):
            super().__init__(GPTConfig(width=24, layers=2, vocabulary=31))
            blocks = list(self.blocks)
            del self.blocks
            self.__dict__["blocks"] = blocks

    check = only(failures(Unregistered()), "parameters.formula")
    assert (check.component, check.cause) == ("parameters", "parameters-unregistered")


@pytest.mark.parametrize(
    ("declare", "check"),
    [
        ({"profile": "llama"}, None),
        ({"profile": "llama", "activation": "gelu"}, "declared.feed_forward"),
        ({"profile": "gpt2"}, "declared.positions"),
        ({"positions": "rotary", "rope_base": 10_000, "rope_pairing": "interleaved"}, None),
        ({"positions": "alibi"}, "declared.positions"),
        ({"rope_pairing": "half"}, "declared.rope"),
        ({"rope_base": 500_000.0}, "declared.rope"),
        ({"scale": 0.125}, "declared.scale"),
        ({"window": 8}, "declared.window"),
        ({"window": None, "soft_cap": None}, None),
        ({"soft_cap": 30.0}, "declared.soft_cap"),
        ({"tied": True}, "declared.tied"),
        ({"bias": True}, "declared.norm"),
        ({"norm": "layer"}, "declared.norm"),
        ({"norm_eps": 1e-6}, "declared.norm"),
        ({"norm_eps": 1e-5, "placement": "pre", "parallel": False}, None),
        ({"experts": 8}, "declared.feed_forward"),
        ({"heads": 4, "kv_heads": 4, "layers": 4, "width": 128, "head_width": 32}, None),
        ({"kv_heads": 2}, "declared.shape"),
        ({"parameters": 810_624}, None),
        ({"parameters": 810_625}, "parameters.formula"),
    ],
    ids=str,
)
def test_what_a_person_declares_is_held_against_the_reference(declare, check):
    found = failures("reference", **declare)
    assert check in found if check else found == {}


@pytest.mark.parametrize(
    ("declare", "sentence"),
    [
        ({"windw": 8}, "nothing is called 'windw'"),
        ({"window": "wide"}, "window is declared as 'wide'"),
        ({"positions": "rope"}, "positions is declared as 'rope'"),
        ({"scale": -1.0}, "scale is declared as -1.0"),
        ({"tied": "yes"}, "tied is declared as 'yes'"),
    ],
)
def test_what_means_nothing_is_refused_by_a_sentence(declare, sentence):
    with pytest.raises(UsageError, match=sentence):
        theodolite.audit("reference", declare=declare)
