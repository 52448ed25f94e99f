"""How wide the feed-forward network is: parity of the gated form, and rounding up."""

from __future__ import annotations

from functools import partial

import torch
from hypothesis import strategies as st

from theodolite.fixtures.judging.judgement import judge, require
from theodolite.fixtures.oracles.cost import count_cost
from theodolite.fixtures.oracles.strategies import drawn
from theodolite.properties import claim
from theodolite.reference import feed_forward as reference


@claim("FFN-3")
@drawn(max_examples=8, third=st.integers(1, 16), length=st.sampled_from([5, 1]))
def test_three_matrices_cost_what_two_do(third: int, length: int) -> None:
    """For every width that 3 divides: 8d² parameters and 2·8d² FLOPs a position, both kinds."""
    width = 3 * third
    x = torch.zeros(2, length, width)
    for network in (
        reference.SwiGLU(width, reference.gated_width(width, multiple=1)),
        reference.FeedForward(width),
    ):
        where = {"kind": type(network).__name__, "d": width}
        judge(
            sum(each.numel() for each in network.parameters()),
            8 * width**2,
            "the feed-forward network has 8·d² parameters",
            where=where,
            remedy="d_ff is 4·d with two matrices and 8/3·d with three.",
            component="feed_forward",
        )
        judge(
            count_cost(partial(network, x)).matrix_flops,
            2 * 8 * width**2 * 2 * length,
            "the feed-forward network takes 16·d² FLOPs a position",
            where=where,
            component="feed_forward",
        )


@claim("FFN-3", "FFN-4")
@drawn(
    max_examples=60,
    width=st.one_of(st.integers(1, 512), st.sampled_from([4096, 5120, 8192, 12288])),
    multiple=st.sampled_from([1, 8, 64, 256]),
)
def test_rounding_up_keeps_parity_within_the_step(width: int, multiple: int) -> None:
    """d_ff is the first multiple not below 8/3·d: 0 <= 3·d·d_ff - 8·d² < 3·d·multiple."""
    hidden = reference.gated_width(width, multiple)
    where = {"d": width, "multiple": multiple, "d_ff": hidden}
    require(
        hidden % multiple == 0,
        "d_ff is a multiple of what it is rounded to",
        where=where,
        component="feed_forward",
    )
    excess = 3 * width * hidden - 8 * width**2
    require(
        0 <= excess < 3 * width * multiple,
        "rounding up adds less than one step to the 8·d² parameters",
        measured=excess,
        at_most=3 * width * multiple,
        where=where,
        remedy="Round 8/3·d up, in whole numbers.",
        component="feed_forward",
    )


@claim("FFN-4")
def test_the_printed_widths() -> None:
    """344 for 128 in steps of 8; 11008, which is 2.69 times 4096, in steps of 256."""
    for width, multiple, hidden in ((128, 8, 344), (4096, 256, 11008)):
        judge(
            reference.gated_width(width, multiple),
            hidden,
            f"8/3 · {width} rounds up to {hidden}",
            component="feed_forward",
        )
    ratio = reference.gated_width(4096, 256) / 4096
    judge(ratio, 2.69, "11008 is 2.69 times 4096", bound=0.005, component="feed_forward")
