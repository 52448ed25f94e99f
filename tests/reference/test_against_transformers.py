"""The same weights in an independent implementation give the same logits."""

import pytest
import torch

from theodolite.reference import GPT, GPTConfig, gpt2_style

transformers = pytest.importorskip("transformers")

BOUND = 1e-4
"""Of the logits' standard deviation: float32 relations of correct models stay below 2.7e-5."""


def assert_same_logits(ours, theirs, vocabulary):
    ids = torch.randint(vocabulary, (3, 13), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs(input_ids=ids).logits
        assert (ours(ids) - expected).abs().max() <= BOUND * expected.std()


def randomise(model):
    torch.manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


@pytest.mark.parametrize("kv_heads", [6, 2])
def test_llama(kv_heads):
    config = GPTConfig(
        vocabulary=61,
        width=48,
        layers=3,
        heads=6,
        kv_heads=kv_heads,
        feed_forward_width=80,
        rotary_base=500.0,
        rotary_pairing="half",
    )
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=61,
            hidden_size=48,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=kv_heads,
            intermediate_size=80,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
            tie_word_embeddings=False,
        )
    )
    weights = randomise(theirs).state_dict()
    names = {
        "attention_norm.weight": "input_layernorm.weight",
        "attention.output.weight": "self_attn.o_proj.weight",
        "feed_forward_norm.weight": "post_attention_layernorm.weight",
        "feed_forward.gate.weight": "mlp.gate_proj.weight",
        "feed_forward.up.weight": "mlp.up_proj.weight",
        "feed_forward.down.weight": "mlp.down_proj.weight",
    }
    state = {
        "embedding.weight": weights["model.embed_tokens.weight"],
        "norm.weight": weights["model.norm.weight"],
        "head.weight": weights["lm_head.weight"],
    }
    for layer in range(3):
        prefix = f"model.layers.{layer}"
        joined = [weights[f"{prefix}.self_attn.{part}_proj.weight"] for part in "qkv"]
        state[f"blocks.{layer}.attention.qkv.weight"] = torch.cat(joined)
        for name, theirs_name in names.items():
            state[f"blocks.{layer}.{name}"] = weights[f"{prefix}.{theirs_name}"]
    ours = GPT(config)
    ours.load_state_dict(state)
    assert_same_logits(ours, theirs, 61)


def test_gpt2():
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=61, n_positions=32, n_embd=48, n_layer=3, n_head=6, **ids
        )
    )
    weights = randomise(theirs).state_dict()
    state = {
        "embedding.weight": weights["transformer.wte.weight"],
        "positions.table.weight": weights["transformer.wpe.weight"],
        "norm.weight": weights["transformer.ln_f.weight"],
        "norm.bias": weights["transformer.ln_f.bias"],
        "head.weight": weights["lm_head.weight"],
    }
    names = {
        "attention_norm": "ln_1",
        "attention.qkv": "attn.c_attn",
        "attention.output": "attn.c_proj",
        "feed_forward_norm": "ln_2",
        "feed_forward.up": "mlp.c_fc",
        "feed_forward.down": "mlp.c_proj",
    }
    for layer in range(3):
        for name, theirs_name in names.items():
            prefix = f"transformer.h.{layer}.{theirs_name}"
            # GPT-2 keeps its matrices (in, out), torch's Linear keeps (out, in)
            weight = weights[f"{prefix}.weight"]
            state[f"blocks.{layer}.{name}.weight"] = weight.T if weight.dim() == 2 else weight
            state[f"blocks.{layer}.{name}.bias"] = weights[f"{prefix}.bias"]
    ours = GPT(gpt2_style(vocabulary=61, width=48, layers=3, heads=6, context=32))
    ours.load_state_dict(state)
    assert_same_logits(ours, theirs, 61)
