"""AUD-12: the reference checkpointed block by block has the same gradients."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from theodolite.fixtures.judging.judgement import judge
from theodolite.fixtures.oracles.reference_stream import (
    random_ids,
    reference_blocks,
    small_config,
    small_gpt,
)
from theodolite.properties import claim

NOISE = 512 * 2.0**-53


"""Of the reference's gradients in float64, relative to the largest of each.

The same products are summed, at most in another order. Three blocks of seven products and the head,
forward and back, are 44 sums in a row, of 64 terms or fewer, each off by some √64 roundings.
"""


@claim("AUD-12")
def test_the_reference_checkpointed_block_by_block_has_the_same_gradients() -> None:
    """Each block's activations are computed again in backward: in float64, to rounding."""
    shape = small_config()
    model = small_gpt(shape, 0)
    ids = random_ids(shape, 2, 13, seed=0)

    def gradients() -> list[Tensor]:
        value = model(ids).square().sum()
        return list(torch.autograd.grad(value, list(model.parameters())))

    plain = gradients()
    for block in reference_blocks(model):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
    for found, wanted in zip(gradients(), plain, strict=True):
        judge(
            found,
            wanted,
            "a checkpointed block has the gradients of a plain one",
            bound=NOISE * float(wanted.abs().max()),
            component="gradient",
        )
