"""Shapes that cannot work are refused with a sentence."""

from dataclasses import replace

import pytest
import torch

from theodolite.reference import (
    GPT,
    PUBLISHED,
    GPTConfig,
    article,
    count_parameters,
    gpt2_style,
    parameter_count,
)


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"width": 130}, "width 130 does not divide into 4 heads: choose a width"),
        ({"kv_heads": 3}, "4 query heads do not divide among 3 key and value heads: choose"),
        ({"head_width": 7}, "head_width is 7, which is odd.*choose an even head_width"),
        ({"positions": "learned"}, "set context to its length"),
        ({"width": 9, "heads": 3, "positions": "sinusoidal"}, "choose an even width"),
        ({"fused": True, "attention_softcap": 5.0}, "cannot soft-cap.*set fused=False"),
        ({"norm": "batchnorm"}, "norm is 'batchnorm': choose one of 'rmsnorm', 'layernorm'."),
        ({"layers": 0}, "layers is 0: give a whole number of at least 1."),
        ({"width": 12.0}, "width is 12.0: give a whole number"),
        ({"norm_eps": 0.0}, "norm_eps is 0.0: give a number above 0."),
        ({"rotary_base": float("nan")}, "rotary_base is nan: give a number above 0."),
    ],
)
def test_a_shape_that_cannot_work_is_refused(choices, sentence):
    with pytest.raises(ValueError, match=sentence):
        GPTConfig(**choices)


def test_derived_widths_follow_a_changed_width():
    shape = replace(article(), width=256, heads=8).shape
    assert shape == (8, 8, 32, 688)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("gpt2", 124_439_808), ("gpt3-175b", 174_604_259_328), ("llama2-7b", 6_738_415_616)],
)
def test_published_models_have_their_published_size(name, parameters):
    config = PUBLISHED[name]
    assert parameter_count(config).total == parameters
    with torch.device("meta"):
        assert count_parameters(GPT(config)) == parameters


def test_a_small_gpt2_is_composed_of_the_same_parts():
    torch.manual_seed(0)
    model = GPT(gpt2_style())
    assert model.head.weight is model.embedding.weight
    assert type(model.norm).__name__ == "LayerNorm"
    assert model.blocks[0].attention.qkv.bias is not None
