"""NORM: what a norm costs, and which linear layers carry a bias."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from theodolite.fixtures.judging.judgement import at_most, judge, require
from theodolite.fixtures.oracles.cost import Cost, count_cost
from theodolite.fixtures.oracles.strategies import normal
from theodolite.properties import claim
from theodolite.reference import GPT, GPTConfig, block, config, norm

BATCH, LENGTH = 2, 16


def _costs(width: int) -> tuple[Cost, Cost]:
    """Of one of the article's blocks at `width`, and of the two norms in it."""
    shape = dataclasses.replace(config.article(), width=width)
    made = block.Block(shape)
    x = normal(BATCH, LENGTH, width, seed=0, dtype=torch.float32)

    def both_norms() -> None:
        made.attention_norm(x)
        made.feed_forward_norm(x)

    return count_cost(lambda: made(x)), count_cost(both_norms)


@claim("NORM-5")
def test_norms_take_a_negligible_share_of_the_operations() -> None:
    """Below a hundredth in the article's block, and half of that at twice the width.

    A norm takes a few operations a channel, and a block's matrices about 24·d a channel; so the
    share falls as 1/d. Attention's own products, 4·T a channel, bend that by 4·16/(24·128), 2 %.
    """
    shares = {}
    for width in (128, 256):
        whole, norms = _costs(width)
        shares[width] = norms.flops / whole.flops
    at_most(
        shares[128],
        0.01,
        "two norms take less than a hundredth of the operations of their block",
        remedy="a mean of squares takes d multiplications, not d²",
    )
    judge(
        shares[256] / shares[128],
        0.5,
        "the norms' share of the operations halves as the width doubles",
        bound=0.03,
        remedy="the cost of a norm should grow with d, not with d²",
    )


@claim("NORM-5")
def test_a_norm_reads_and_writes_every_activation_for_little_work() -> None:
    """Less than one operation for each element moved, where the block's matrices make dozens."""
    whole, norms = _costs(128)
    activations = 2 * BATCH * LENGTH * 128
    for verb, moved in (("reads", norms.read), ("writes", norms.written)):
        require(
            moved >= activations,
            f"a norm {verb} every activation at least once",
            measured=moved / activations,
        )
    at_most(
        norms.flops / norms.moved,
        1,
        "a norm makes less than one operation for each element that it moves",
    )
    require(
        norms.moved / whole.moved > 10 * norms.flops / whole.flops,
        "a norm's share of the traffic is more than ten times its share of the operations",
        measured=(norms.moved / whole.moved) / (norms.flops / whole.flops),
        remedy="that is why it is bound by memory: is it doing work that grows as d²?",
    )


@claim("NORM-5")
def test_rms_norm_makes_one_reduction_where_layer_norm_makes_two() -> None:
    """And that one, with the centring it serves, reads 2·N and writes N elements more."""
    x = normal(BATCH, LENGTH, 24, seed=0, dtype=torch.float32)
    rms_norm, layer_norm = norm.RMSNorm(24), norm.LayerNorm(24)
    rms, layer = count_cost(lambda: rms_norm(x)), count_cost(lambda: layer_norm(x))
    for kind, cost, expected in (("RMSNorm", rms, 1), ("LayerNorm", layer, 2)):
        judge(
            cost.reductions,
            expected,
            f"{kind} makes {expected} reduction{'s'[: expected - 1]} over the channels",
            remedy="the mean square is one; the mean, if it is taken away, another",
        )
    for what, more, least in (
        ("reads", layer.read - rms.read, 2 * x.numel()),
        ("writes", layer.written - rms.written, x.numel()),
    ):
        require(
            more >= least,
            f"the second reduction and its centring cost further {what} of every activation",
            measured=more / x.numel(),
            at_least=least / x.numel(),
        )


@claim("NORM-6")
def test_no_linear_layer_of_the_articles_model_carries_a_bias() -> None:
    biased = _biased(config.article())
    require(
        not biased,
        "the linear layers of the article's model have no bias",
        where={"with bias": ", ".join(biased)},
        remedy="bias=False in every nn.Linear; GPT-2 has them, LLaMA and its like do not",
    )


@claim("NORM-6")
def test_a_gpt_2_has_biases_and_that_is_no_fault() -> None:
    """The control: where a configuration asks for biases, all of its blocks' layers have one."""
    asked = config.gpt2_style()
    expected = {
        f"blocks.{layer}.{name}"
        for layer in range(asked.layers)
        for name in ("attention.qkv", "attention.output", "feed_forward.up", "feed_forward.down")
    }
    biased = set(_biased(asked))
    require(
        biased == expected,
        "a GPT-2 has a bias in every linear layer of its blocks and in no other",
        where={"unlike": ", ".join(sorted(biased ^ expected))},
    )


def _biased(shape: GPTConfig) -> list[str]:
    return [
        name
        for name, module in GPT(shape).named_modules()
        if isinstance(module, nn.Linear) and module.bias is not None
    ]
