"""Where the norms stand."""

import torch

from theodolite.reference import GPTConfig
from theodolite.reference.block import Block


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
