"""Where the norms stand, and that every part is what the configuration says."""

import pytest
import torch

from theodolite.reference import FeedForward, GPTConfig, LayerNorm, RMSNorm, SwiGLU
from theodolite.reference.block import Block
from theodolite.reference.cache import LayerCache
from theodolite.reference.rotary import rotation_at


def block_with_dead_branches(placement):
    torch.manual_seed(0)
    block = Block(GPTConfig(width=12, heads=2, placement=placement))
    for parameter in block.parameters():
        if parameter.dim() == 2:
            parameter.data.zero_()
    return block


def test_pre_norm_leaves_the_stream_alone():
    x = torch.randn(2, 3, 12)
    assert torch.equal(block_with_dead_branches("pre")(x), x)


def test_post_norm_normalises_the_stream_itself():
    x = 5 * torch.randn(2, 3, 12)
    rms = block_with_dead_branches("post")(x).square().mean(-1).sqrt()
    assert (rms - 1).abs().max() <= 1e-5  # eps = 1e-5 inside a root over a mean square of 25 or so


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_attention_is_given_mask_rotation_and_cache(placement):
    torch.manual_seed(0)
    block = Block(GPTConfig(width=12, heads=2, placement=placement))
    x = torch.randn(2, 5, 12)
    mask = torch.tensor([True, True, False, True, True]) | torch.eye(5, dtype=torch.bool)
    rotation = rotation_at(torch.arange(5), 6)
    whole = block(x, mask=mask, rotation=rotation)
    assert not torch.allclose(whole, block(x, rotation=rotation))
    assert not torch.allclose(whole, block(x, mask=mask))
    cache = LayerCache()
    pieces = [
        block(x[:, part], mask=mask[part, :end], rotation=rotation_at(at, 6), cache=cache)
        for part, end, at in [
            (slice(0, 2), 2, torch.arange(2)),
            (slice(2, 5), 5, torch.arange(2, 5)),
        ]
    ]
    # sums of a few dozen terms of about 1, in float32
    assert (torch.cat(pieces, dim=1) - whole).abs().max() <= 100 * torch.finfo(torch.float32).eps


def test_every_choice_of_attention_reaches_it():
    config = GPTConfig(
        width=12, heads=4, kv_heads=2, head_width=6, bias=True, qk_norm=True, norm_eps=0.25,
        attention_softcap=7.0,
    )  # fmt: skip
    attention = Block(config).attention
    assert (attention.heads, attention.kv_heads, attention.head_width) == (4, 2, 6)
    assert attention.qkv.weight.shape == (8 * 6, 12)
    assert attention.output.weight.shape == (12, 24)
    assert attention.qkv.bias is not None
    assert attention.output.bias is not None
    assert isinstance(attention.query_norm, RMSNorm)
    assert isinstance(attention.key_norm, RMSNorm)
    assert attention.query_norm.eps == attention.key_norm.eps == 0.25
    assert attention.query_norm.weight.shape == attention.key_norm.weight.shape == (6,)
    assert attention.softcap == 7.0
    assert not attention.fused
    assert Block(GPTConfig(fused=True)).attention.fused


def test_attention_has_biases_norms_and_a_cap_only_where_they_are_asked_for():
    attention = Block(GPTConfig(width=12, heads=3, positions="sinusoidal")).attention
    assert (attention.kv_heads, attention.head_width) == (3, 4)
    assert attention.qkv.bias is None
    assert attention.output.bias is None
    assert list(attention.query_norm.parameters()) == list(attention.key_norm.parameters()) == []
    assert attention.softcap is None


@pytest.mark.parametrize(("norm", "kind"), [("rmsnorm", RMSNorm), ("layernorm", LayerNorm)])
def test_both_norms_are_of_the_kind_and_epsilon_asked_for(norm, kind):
    block = Block(GPTConfig(width=12, heads=2, norm=norm, norm_eps=0.25))
    for found in (block.attention_norm, block.feed_forward_norm):
        assert type(found) is kind
        assert found.eps == 0.25
        assert found.weight.shape == (12,)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("kind", "layer", "activation"),
    [
        ("swiglu", SwiGLU, None),
        ("relu", FeedForward, torch.nn.ReLU),
        ("gelu", FeedForward, torch.nn.GELU),
    ],
)
def test_the_feed_forward_is_of_the_kind_and_width_asked_for(kind, layer, activation, bias):
    config = GPTConfig(width=12, heads=2, feed_forward=kind, feed_forward_width=20, bias=bias)
    found = Block(config).feed_forward
    assert type(found) is layer
    assert type(getattr(found, "activation", None)) is (activation or type(None))
    assert found.up.weight.shape == (20, 12)
    assert found.down.weight.shape == (12, 20)
    assert (found.up.bias is not None) == (found.down.bias is not None) == bias
