"""Faults of assembly, parameter count and memory layout."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from theodolite.properties.mutants.host import REFERENCE
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, parameters
from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.block import Block
from theodolite.reference.config import GPTConfig
from theodolite.reference.model import GPT

Count = parameters.ParameterCount


def with_blocks(patch: Patch, order: Callable[[list[nn.Module]], list[nn.Module]]) -> None:
    """Run the blocks in another order."""

    def change(go_on: Callable[[Tensor], Any], gpt: GPT, ids: Tensor) -> Any:
        blocks = gpt.blocks
        gpt.blocks = nn.ModuleList(order(list(blocks)))
        try:
            return go_on(ids)
        finally:
            gpt.blocks = blocks

    REFERENCE.wrap("forward", change, patch)


def _change_logits(patch: Patch, change: Callable[[Tensor], Tensor]) -> None:
    def forward(go_on: Callable[[Tensor], Any], _: GPT, ids: Tensor) -> Any:
        result = go_on(ids)
        if isinstance(result, tuple):
            return change(result[0]), result[1]
        return change(result)

    REFERENCE.wrap("forward", forward, patch)


def _change_count(patch: Patch, change: Callable[[GPTConfig, Count], Count]) -> None:
    original = parameters.parameter_count
    patch.replace(original, lambda config: change(config, original(config)))


@mutant("blocks-in-reverse", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """The last block runs first."""
    with_blocks(patch, lambda blocks: blocks[::-1])


@mutant("last-block-left-out", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """The loop over the blocks ends one too early."""
    with_blocks(patch, lambda blocks: blocks[:-1])


@mutant("logits-of-the-last-position-only", component="shape", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Logits come for the last position alone, (B, 1, V)."""
    _change_logits(patch, lambda logits: logits[:, -1:])


@mutant("logits-with-axes-exchanged", component="shape", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Logits come as (B, V, T)."""
    _change_logits(patch, lambda logits: logits.transpose(1, 2))


@mutant("formula-without-the-final-norm", component="parameters", breaks=("GPT-2", "GPT-3"))
def _(patch: Patch) -> None:
    """The formula forgets the norm before the head."""
    _change_count(patch, lambda _, count: dataclasses.replace(count, final_norm=0))


@mutant("formula-with-full-key-heads", component="parameters", breaks=("GPT-2",))
def _(patch: Patch) -> None:
    """The formula takes grouped keys and values to be as many as the queries."""
    original = parameters.parameter_count

    def count(config: GPTConfig) -> Count:
        return original(dataclasses.replace(config, kv_heads=None))

    patch.replace(original, count)


@mutant("formula-counts-a-tied-head", component="tying", breaks=("GPT-2", "GPT-3"))
def _(patch: Patch) -> None:
    """The formula counts a tied head a second time."""
    _change_count(patch, lambda _, count: dataclasses.replace(count, head=count.embedding))


@mutant("swiglu-of-width-four", component="feed_forward", breaks=("GPT-2",))
def _(patch: Patch) -> None:
    """The gated network is 4·d wide, as the ungated one, and so half as large again."""

    def fill(self: GPTConfig) -> Any:
        shape = original(self)
        return shape._replace(feed_forward_width=self.feed_forward_width or 4 * self.width)

    original = GPTConfig.shape.fget  # type: ignore[attr-defined]
    patch.method(GPTConfig, "shape", property(fill))


@mutant(
    "layers-in-a-plain-list",
    component="parameters",
    breaks=("GPT-2", "GPT-3"),
    source="EleutherAI/gpt-neox#267",
)
def _(patch: Patch) -> None:
    """The blocks stand in a plain list, where no optimiser finds them."""

    def unregister(gpt: GPT) -> None:
        blocks = list(gpt.blocks)
        del gpt.blocks
        object.__setattr__(gpt, "blocks", blocks)

    patch.after_init(GPT, unregister)


@mutant("a-norm-that-nobody-uses", component="parameters", breaks=("GPT-2", "GPT-3"))
def _(patch: Patch) -> None:
    """Every block holds a third norm, which never runs."""
    original = Block.__init__

    def make(self: Block, config: GPTConfig) -> None:
        original(self, config)
        self.spare = nn.LayerNorm(config.width)

    patch.method(Block, "__init__", make)


@mutant(
    "heads-joined-as-they-lie-in-memory",
    component="heads",
    breaks=("GPT-4",),
    source="jsbaan/transformer-from-scratch#6",
)
def _(patch: Patch) -> None:
    """(B, H, T, d) is reshaped to (B, T, H·d) as it lies in memory."""

    def attend(
        self: MultiHeadAttention,  # noqa: ARG001
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None,
        causal: bool,
    ) -> Tensor:
        mean = attention.scaled_dot_product_attention(query, key, value, mask=mask, causal=causal)
        B, H, T, d = mean.shape
        return mean.reshape(B, T, H * d)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant("one-block-for-all", component="parameters", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """The first block runs as often as there are blocks; the others never do."""
    with_blocks(patch, lambda blocks: blocks[:1] * len(blocks))


@mutant("feed-forward-before-attention", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Each block runs its feed-forward network first."""

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        x = x + self.feed_forward(self.feed_forward_norm(x))
        attended: Tensor = self.attention(self.attention_norm(x), **options)
        return x + attended

    patch.method(Block, "forward", forward)
