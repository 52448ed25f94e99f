"""Small random models of many families are captured, layer by layer, with their scale."""

import pytest
import torch

from theodolite.fixtures.recording.recorder import record

transformers = pytest.importorskip("transformers")

LAYERS, HEADS, WIDTH, LENGTH = 3, 4, 16, 13
COMMON = {
    "vocab_size": 97,
    "hidden_size": HEADS * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**COMMON, "num_key_value_heads": 2, "head_dim": WIDTH}
FAMILIES = {
    "llama": GROUPED,
    "mistral": {**GROUPED, "sliding_window": 8},
    "gemma2": {**GROUPED, "sliding_window": 8, "query_pre_attn_scalar": 20},
    "mixtral": {**GROUPED, "num_local_experts": 4},
    "gpt_oss": {**GROUPED, "num_local_experts": 4, "sliding_window": 8},
    "qwen3": GROUPED,
    "phi": COMMON,
    "gpt_neox": COMMON,
    "falcon": COMMON,
    "opt": {**COMMON, "ffn_dim": 96, "word_embed_proj_dim": HEADS * WIDTH},
    "bloom": {**COMMON, "n_layer": LAYERS, "n_head": HEADS},
    "gpt2": {**COMMON, "n_embd": HEADS * WIDTH, "n_layer": LAYERS, "n_head": HEADS},
}
EAGER_ONLY = {"gemma2", "gpt_oss", "bloom"}
CASES = [
    (family, implementation)
    for family in FAMILIES
    for implementation in ("eager", "sdpa")
    if implementation == "eager" or family not in EAGER_ONLY
]


@pytest.fixture(params=CASES, ids="-".join)
def case(request):
    family, implementation = request.param
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **FAMILIES[family])
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=implementation
    )
    return family, model.eval(), torch.randint(3, 97, (2, LENGTH))


def test_every_layer_is_captured_with_its_scale(case):
    family, model, ids = case
    with torch.no_grad():
        expected = model(ids).logits
        recording = record(model, lambda: model(ids))
    assert recording.output.logits.equal(expected)
    assert recording.reason is None
    assert len(recording.calls) == len(recording.layers) == LAYERS
    scale = 20**-0.5 if family == "gemma2" else WIDTH**-0.5
    for index, call in enumerate(recording.calls):
        assert call.index == index
        assert f".{index}." in call.module
        assert call.query.shape == (2, HEADS, LENGTH, WIDTH)
        assert call.scale == pytest.approx(scale, rel=1e-4)
        assert call.soft_cap == (50.0 if family == "gemma2" else None)
        assert call.extra_columns == (1 if family == "gpt_oss" else 0)
        assert call.probabilities.triu(1).eq(0).all()


def test_grouped_keys_are_told_from_their_projection(case):
    family, model, ids = case
    with torch.no_grad():
        recording = record(model, lambda: model(ids))
    groups = {"falcon": 1}.get(family, 2 if "num_key_value_heads" in FAMILIES[family] else HEADS)
    assert all(call.projected_key.shape[1] == groups for call in recording.calls)


def test_the_token_table_is_the_first_lookup(case):
    _, model, ids = case
    with torch.no_grad():
        first = record(model, lambda: model(ids)).embeddings[0]
    assert first.indices.equal(ids)
    assert model.get_parameter(first.weight) is model.get_input_embeddings().weight
