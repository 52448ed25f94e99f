"""The article's five quiz questions and the three things to remember, as properties.

Each names the claims that its answer rests on; the wrong options are checked to be wrong.
"""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from theodolite.fixtures.anatomy.advice import advice
from theodolite.fixtures.judging.judgement import judge, judge_differs, require
from theodolite.fixtures.judging.rounding import attention_error, unit_roundoff
from theodolite.fixtures.oracles.attention_from_outside import Attention
from theodolite.fixtures.oracles.strategies import (
    AttentionShape,
    drawn,
    normal,
    query_key_value,
    seeds,
)
from theodolite.properties import claim
from theodolite.reference import attention, config, feed_forward, model, norm, rotary

SHAPE = AttentionShape(batch=2, heads=3, length=7, width=8)


class Watched(attention.MultiHeadAttention):
    """Keeps the queries, keys and values that last met."""

    seen: tuple[Tensor, Tensor, Tensor]

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None, causal: bool
    ) -> Tensor:
        """Attend as ever, and remember."""
        self.seen = query, key, value
        return super().attend(query, key, value, mask=mask, causal=causal)


@claim("ATT-6")
@drawn(max_examples=10, seed=seeds())
def test_quiz_1_the_mask_hides_the_answer_and_saves_nothing(
    attention: Attention, seed: int
) -> None:
    """Not against overflow, not to save work: without it the next token is there to be read."""
    query, key, value = query_key_value(SHAPE, seed, scores="huge", dtype=torch.float32)
    answer = value.clone()
    answer[:, :, -1] += 100.0
    for causal in (True, False):
        output = attention(query, key, value, causal=causal)
        where = {"causal": causal}
        require(
            bool(torch.isfinite(output).all()),
            "softmax over huge scores does not overflow, with the mask or without",
            where=where,
        )
    query, key = query / 64, key / 64  # spread attention: every visible position takes part
    shown = attention(query, key, answer, causal=False) - attention(query, key, value, causal=False)
    hidden = attention(query, key, answer, causal=True) - attention(query, key, value, causal=True)
    judge(
        hidden[:, :, :-1],
        0.0,
        "under the mask, what stands last reaches no position before it",
        axes=("row", "head", "position", "channel"),
        component="mask",
    )
    require(
        bool((shown[:, :, :-1].abs() > attention_error(query, key, answer)).all()),
        "without the mask, what stands last reaches every position before it",
    )


@claim("ATT-6")
def test_quiz_1_a_dense_mask_saves_no_operation() -> None:
    """Counted, not timed: the masked half of the scores is computed and thrown away."""
    query, key, value = normal(3, *SHAPE, seed=0)
    counts = []
    for causal in (True, False):
        with FlopCounterMode(display=False) as counter:
            attention.scaled_dot_product_attention(query, key, value, causal=causal)
        counts.append(counter.get_total_flops())
    judge(counts[0], counts[1], "a dense causal mask leaves the operations as many")


@claim("ROPE-1", "ROPE-4", "ROPE-5")
def test_quiz_2_rope_turns_queries_and_keys_by_distance_and_learns_nothing() -> None:
    """True: distance alone, nothing to learn. Not so: a vector added, or values turned too."""
    query, key, _ = normal(3, 1, 1, 1, 16, seed=2)
    scores = [
        rotary.rotate(query, torch.tensor([m])) @ rotary.rotate(key, torch.tensor([n])).mT
        for m, n in ((3, 1), (10, 8), (1002, 1000))
    ]
    # an angle of 1002 radians in float64 is off by 1002 roundings of its unit
    judge(
        torch.stack(scores),
        scores[0].expand(3, 1, 1, 1, 1),
        "equal distances give equal scores",
        bound=4 * 1002 * unit_roundoff(query.dtype) * float(query.norm() * key.norm()),
        component="rope",
    )
    gpt = model.GPT(config.GPTConfig(vocabulary=11, width=24, layers=2, heads=3))
    require(gpt.positions is None, "a model with RoPE adds no position vector to its embedding")
    require(
        isinstance(gpt.rotary, rotary.Rotary) and not list(gpt.rotary.parameters()),
        "RoPE has no parameter",
        component="rope",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = Watched(24, 3).requires_grad_(requires_grad=False)
    constant = normal(1, 1, 24, seed=3, dtype=torch.float32).expand(1, 5, 24)
    layer(constant, rotation=rotary.Rotary(8)(torch.arange(5)))
    for name, tensor, turns in zip("qkv", layer.seen, (True, True, False), strict=True):
        moved = (tensor - tensor[:, :, :1]).abs().amax()
        # rounding stays below 1e-5, four radians do not
        require(
            bool(moved > 1e-3) == turns,
            f"on one token repeated, {name} {'turns' if turns else 'does not turn'} with position",
            measured=float(moved),
            component="rope",
        )


@claim("FFN-3")
def test_quiz_3_the_gated_width_is_eight_thirds() -> None:
    """Of 4, 2, 8/3 and 12 times d, only 8/3 makes three matrices as large as two of 4·d."""
    width = 48
    two = sum(each.numel() for each in feed_forward.FeedForward(width, 4 * width).parameters())
    for factor in (Fraction(4), Fraction(2), Fraction(8, 3), Fraction(12)):
        three = sum(
            each.numel() for each in feed_forward.SwiGLU(width, int(factor * width)).parameters()
        )
        require(
            (three == two) == (factor == Fraction(8, 3)),
            "three matrices hold what two of 4·d do at d_ff = 8/3·d, and at no other option",
            measured=float(three),
            at_most=float(two),
            at_least=float(two),
            where={"d_ff/d": str(factor)},
            component="feed_forward",
        )
    judge(feed_forward.gated_width(width), 8 * width // 3, "the default is 8/3·d")


@claim("GPT-4")
def test_quiz_4_a_view_after_transpose_raises() -> None:
    """It neither gives the same, nor scrambles heads, nor loses the gradient: it refuses."""
    mean = normal(*SHAPE, seed=4).requires_grad_()
    turned = mean.transpose(1, 2)
    B, H, T, d = SHAPE
    require(not turned.is_contiguous(), "memory is out of order after transpose(1, 2)")
    refused = ""
    try:
        turned.view(B, T, H * d)
    except RuntimeError as error:
        refused = str(error)
    require("view" in refused, "view to (B, T, C) raises", where={"said": refused})
    joined = attention.MultiHeadAttention.attend
    layer = attention.MultiHeadAttention(H * d, H).double()
    first_only = torch.eye(T, dtype=torch.bool)  # each position sees itself: the mean is the value
    judge(
        joined(layer, mean, mean, mean, mask=first_only, causal=True),
        turned.reshape(B, T, H * d),
        "reshape copies and puts head after head",
        axes=("row", "position", "channel"),
        component="heads",
    )


@claim("HYP-3")
def test_quiz_5_mainstream_shapes_draw_no_advice() -> None:
    """At d = 4096: 32 heads of 128 and d_ff of 11008 are common; 64 of 128, or dropout, are not."""

    def said(heads: int = 32, head_width: int = 128, dropout: float = 0.0) -> list[str]:
        return advice(4096, 32, heads, head_width, 11008, True, 32000, dropout, 0.1)

    require(not said(), "32 heads of 128 and d_ff of 11008 are accepted", where={"said": said()})
    require(said(heads=64), "64 heads of 128, twice the model's width, are advised against")
    require(said(dropout=0.3), "dropout of 0.3 in pre-training is advised against")


@claim("ATT-1", "ORD-1")
@drawn(max_examples=10, seed=seeds())
def test_remember_1_a_weighted_mean_chosen_by_data_and_blind_to_order(
    attention: Attention, seed: int
) -> None:
    """Score by q·k, divide by √d, mask, softmax, weigh the values; permuting permutes."""
    query, key, value = query_key_value(SHAPE, seed)
    visible = torch.ones(SHAPE.length, SHAPE.length).tril()
    powers = (query @ key.mT / SHAPE.width**0.5).exp() * visible
    bound = attention_error(query, key, value)
    judge(
        attention(query, key, value, causal=True),
        powers @ value / powers.sum(dim=-1, keepdim=True),
        "attention is a mean of values, weighted by exp(q·k/√d) over what is visible",
        bound=2 * bound,
        axes=("row", "head", "position", "channel"),
    )
    order = torch.randperm(SHAPE.length, generator=torch.Generator().manual_seed(seed))
    permuted = (x[:, :, order] for x in (query, key, value))
    judge(
        attention(*permuted, causal=False),
        attention(query, key, value, causal=False)[:, :, order],
        "without mask and positions, permuting the input permutes the output",
        bound=2 * bound,
        axes=("row", "head", "position", "channel"),
    )


@claim("GPT-1", "NORM-6")
def test_remember_2_the_standard_parts() -> None:
    """RoPE, SwiGLU at about 8/3·d, RMSNorm before each branch, and no bias anywhere."""
    gpt = model.GPT()
    require(isinstance(gpt.rotary, rotary.Rotary), "positions are rotary")
    ratio = gpt.config.shape.feed_forward_width / gpt.config.width
    judge(ratio, 8 / 3, "d_ff is 8/3·d, rounded up by less than 8", bound=8 / gpt.config.width)
    for block in gpt.blocks:
        require(
            isinstance(block.feed_forward, feed_forward.SwiGLU)
            and isinstance(block.attention_norm, norm.RMSNorm)
            and block.pre_norm,
            "a block is pre-norm, with RMSNorm and SwiGLU",
        )
    for name, module in gpt.named_modules():
        if isinstance(module, nn.Linear):
            require(module.bias is None, "no linear layer has a bias", where={"layer": name})


@claim("HYP-1", "STAB-4")
def test_remember_3_shapes_agree_and_softmax_is_sensitive_to_scale() -> None:
    """The published models draw no advice on heads; a larger scale sharpens softmax."""
    for name, published in config.PUBLISHED.items():
        heads, _, head_width, hidden = published.shape
        said = advice(
            published.width,
            None,
            heads,
            head_width,
            hidden,
            published.feed_forward == "swiglu",
            published.vocabulary,
        )
        require(not said, "a published shape draws no advice", where={"model": name, "said": said})
    scores = normal(32, seed=5)
    judge_differs(
        attention.attention_weights(8 * scores).max(),
        attention.attention_weights(scores).max(),
        "eight times the scale moves the largest weight by more than a quarter",
        least=0.25,
        component="softmax",
    )
