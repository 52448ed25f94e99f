"""Hugging Face models: small and random by name, and local folders."""

import sys

import pytest
import torch

from theodolite.fixtures.errors import SubjectError, UsageError

from .as_audited import load

transformers = pytest.importorskip("transformers")

NOT_IN_4 = pytest.mark.skipif(
    transformers.__version__.startswith("4."), reason="transformers 4 does not have this family"
)
FAMILIES = [
    "llama",
    "gpt2",
    "mistral",
    "gemma2",
    "gemma3_text",
    "bloom",
    "gpt_oss",
    "mixtral",
    "gpt_neox",
    "gpt_neo",
    "gptj",
    "opt",
    "phi",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "olmo2",
    "falcon",
    "mpt",
    "stablelm",
    "cohere",
    "granite",
    "starcoder2",
    "smollm3",
    "deepseek_v3",
    "xglm",
    "biogpt",
    "mamba",
    "mamba2",
    "falcon_h1",
    "zamba2",
    pytest.param("nemotron_h", marks=NOT_IN_4),
    "qwen3_next",
    "gemma3n_text",
    "longcat_flash",
    "dots1",
]


def logits_of(model):
    with torch.no_grad():
        return model.eval()(torch.arange(26).reshape(2, 13)).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_type_is_built_small_and_runs(family):
    loaded = load(f"hf:{family}")
    assert tuple(logits_of(loaded.model).shape) == (2, 13, 97)
    assert sum(p.numel() for p in loaded.model.parameters()) < 1_000_000
    assert loaded.declarations["vocabulary"] == 97
    assert any("was chosen as" in note for note in loaded.notes)


@pytest.mark.parametrize(
    ("family", "field"),
    [
        ("mistral", "sliding_window"),
        ("llama4_text", "attention_chunk_size"),
        ("recurrent_gemma", "attention_window_size"),
    ],
)
def test_windows_are_made_narrower_than_the_sequences_of_an_audit(family, field):
    assert 1 < getattr(load(f"hf:{family}").model.config, field) < 13


def test_layers_that_share_keys_and_values_share_those_of_their_own_kind():
    config = load("hf:gemma3n_text").model.config
    assert config.layer_types == ["sliding_attention", "full_attention", "full_attention"]
    assert config.num_kv_shared_layers == 1


@NOT_IN_4
def test_every_kind_of_layer_is_kept_where_the_kinds_are_the_layers():
    config = load("hf:nemotron_h").model.config
    assert sorted(config.layers_block_type) == ["full_attention", "linear_attention", "mlp", "moe"]


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_attention_implementation_is_chosen_at_construction(implementation):
    loaded = load("hf:llama", settings={"attn_implementation": implementation})
    assert loaded.model.config._attn_implementation == implementation


def test_an_implementation_that_a_family_lacks_is_refused():
    with pytest.raises(SubjectError, match="GptOssForCausalLM"):
        load("hf:gpt_oss", settings={"attn_implementation": "sdpa"})


def test_every_kind_of_layer_is_kept_in_few_layers():
    kinds = load("hf:gemma3_text").model.config.layer_types
    assert set(kinds) == {"sliding_attention", "full_attention"}


def test_a_class_name_and_a_field_are_taken():
    loaded = load("hf:LlamaForCausalLM", settings={"num_hidden_layers": 1, "vocab_size": 31})
    assert len(loaded.model.model.layers) == 1
    assert logits_of(loaded.model).shape[-1] == 31


def test_a_field_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"no field 'hiden_size'. Did you mean hidden_size"):
        load("hf:llama", settings={"hiden_size": 8})


def test_a_name_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"no model class.*'LlamaForCausalLN'.* LlamaForCausalLM"):
        load("hf:LlamaForCausalLN")


def test_building_twice_gives_the_same_weights():
    loaded = load("hf:gpt2")
    for one, other in zip(loaded.model.parameters(), loaded.rebuild().parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_folder_with_safetensors_is_loaded(tmp_path):
    built = load("hf:llama").model
    built.save_pretrained(tmp_path)
    loaded = load(f"hf:{tmp_path}")
    assert torch.equal(logits_of(loaded.model), logits_of(built))
    assert loaded.notes == []


def test_a_lone_configuration_is_built_at_random(tmp_path):
    load("hf:gpt2").model.config.save_pretrained(tmp_path)
    loaded = load(f"hf:{tmp_path}")
    assert loaded.notes == ["the folder has no weights, so they were drawn at random"]
    assert logits_of(loaded.model).shape == (2, 13, 97)


def test_pickled_weights_are_refused(tmp_path):
    load("hf:gpt2").model.config.save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    with pytest.raises(SubjectError, match=r"only as pytorch_model.bin.*save them as safetensors"):
        load(f"hf:{tmp_path}")


def test_a_folder_without_configuration_is_refused(tmp_path):
    with pytest.raises(SubjectError, match=r"has no config.json"):
        load(f"hf:{tmp_path}")


def test_code_of_a_checkpoint_is_not_run(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "mine", "auto_map": {"AutoConfig": "evil.Config"}}', encoding="utf-8"
    )
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')\n", encoding="utf-8")
    with pytest.raises(SubjectError, match=r"config.json cannot be used"):
        load(f"hf:{tmp_path}")


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SubjectError, match=r"pip install 'theodolite\[hf\]'"):
        load("hf:llama")


def test_a_layer_attends_where_the_layers_that_do_are_left_open():
    model = load("hf:bamba").model
    assert model.config.layer_types == ["linear_attention", "full_attention", "linear_attention"]
