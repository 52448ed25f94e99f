"""Faults of assembly, parameter count, memory layout, loss and initialisation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, loss, parameters
from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.block import Block
from theodolite.reference.config import GPTConfig
from theodolite.reference.model import GPT
from torch import Tensor, nn

Loss = Callable[..., Tensor]
Count = parameters.ParameterCount


def _after_building(patch: Patch, change: Callable[[GPT], None]) -> None:
    """Apply `change` to every GPT that is built."""
    original = GPT.__init__

    def make(self: GPT, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        change(self)

    patch.method(GPT, "__init__", make)


def _with_blocks(patch: Patch, order: Callable[[list[nn.Module]], list[nn.Module]]) -> None:
    """Run the blocks in another order."""
    original = GPT.forward

    def forward(self: GPT, ids: Tensor, *given: Any, **named: Any) -> Any:
        blocks = self.blocks
        self.blocks = nn.ModuleList(order(list(blocks)))
        try:
            return original(self, ids, *given, **named)
        finally:
            self.blocks = blocks

    patch.method(GPT, "forward", forward)


def _change_logits(patch: Patch, change: Callable[[Tensor], Tensor]) -> None:
    original = GPT.forward

    def forward(self: GPT, ids: Tensor, *given: Any, **named: Any) -> Any:
        result = original(self, ids, *given, **named)
        if isinstance(result, tuple):
            return change(result[0]), result[1]
        return change(result)

    patch.method(GPT, "forward", forward)


def _change_count(patch: Patch, change: Callable[[GPTConfig, Count], Count]) -> None:
    original = parameters.parameter_count
    patch.replace(original, lambda config: change(config, original(config)))


@mutant("blocks-in-reverse", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """The last block runs first."""
    _with_blocks(patch, lambda blocks: blocks[::-1])


@mutant("one-block-for-all", component="parameters", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """The first block runs as often as there are blocks; the others never do."""
    _with_blocks(patch, lambda blocks: blocks[:1] * len(blocks))


@mutant("last-block-left-out", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """The loop over the blocks ends one too early."""
    _with_blocks(patch, lambda blocks: blocks[:-1])


@mutant("logits-of-the-last-position-only", component="shape", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Logits come for the last position alone, (B, 1, V)."""
    _change_logits(patch, lambda logits: logits[:, -1:])


@mutant("logits-with-axes-exchanged", component="shape", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Logits come as (B, V, T)."""
    _change_logits(patch, lambda logits: logits.transpose(1, 2))


@mutant("feed-forward-before-attention", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Each block runs its feed-forward network first."""

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        x = x + self.feed_forward(self.feed_forward_norm(x))
        attended: Tensor = self.attention(self.attention_norm(x), **options)
        return x + attended

    patch.method(Block, "forward", forward)


@mutant("sub-layers-in-parallel", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Attention and feed-forward network both read the block's input."""

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        attended: Tensor = self.attention(self.attention_norm(x), **options)
        fed: Tensor = self.feed_forward(self.feed_forward_norm(x))
        return x + attended + fed

    patch.method(Block, "forward", forward)


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
    "tie-broken-after-building",
    component="tying",
    breaks=("GPT-3",),
    source="Modalities/modalities#357",
)
def _(patch: Patch) -> None:
    """The tied head is made anew, so the two weights go separate ways."""

    def untie(gpt: GPT) -> None:
        gpt.head.weight = nn.Parameter(gpt.head.weight.detach().clone())

    _after_building(patch, untie)


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

    _after_building(patch, unregister)


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


@mutant("heads-split-by-a-view", component="heads", breaks=("GPT-4",))
def _(patch: Patch) -> None:
    """(B, T, C) is viewed straight as (B, H, T, d): no error, and scrambled heads."""
    original = MultiHeadAttention.project

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        B, T, _ = x.shape
        query, key, value = original(self, x)
        scrambled = [
            part.transpose(1, 2).reshape(B, -1, T, self.head_width) for part in (query, key, value)
        ]
        return scrambled[0], scrambled[1], scrambled[2]

    patch.method(MultiHeadAttention, "project", project)


@mutant(
    "heads-joined-through-contiguous",
    component="heads",
    breaks=("GPT-4",),
    equivalent="contiguous() makes the copy that reshape would make, and then a view is right.",
)
def _(patch: Patch) -> None:
    """The transposed heads are copied into order and then viewed."""
    fused = MultiHeadAttention.attend

    def attend(
        self: MultiHeadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None,
        causal: bool,
    ) -> Tensor:
        if self.kv_heads < self.heads or self.softcap is not None:
            return fused(self, query, key, value, mask=mask, causal=causal)
        mean = attention.scaled_dot_product_attention(query, key, value, mask=mask, causal=causal)
        B, H, T, d = mean.shape
        return mean.transpose(1, 2).contiguous().view(B, T, H * d)

    patch.method(MultiHeadAttention, "attend", attend)


@mutant(
    "loss-shifts-twice",
    component="loss",
    breaks=("GPT-5",),
    source="huggingface/transformers#47394",
)
def _(patch: Patch) -> None:
    """Targets that the data has shifted are shifted again: the model learns token t + 2."""
    original = loss.token_loss

    def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
        if targets.shape[-1] < 2:
            return original(logits, targets, ignore_index)
        return original(logits[:, :-1], targets[:, 1:], ignore_index)

    patch.replace(original, token_loss)


@mutant(
    "loss-does-not-shift",
    component="loss",
    breaks=("GPT-5",),
    source="huggingface/transformers#27517",
)
def _(patch: Patch) -> None:
    """Logits are held against the token that they were computed from."""

    def next_token_loss(logits: Tensor, ids: Tensor, ignore_index: int = -100) -> Tensor:
        return loss.token_loss(logits, ids, ignore_index)

    patch.replace(loss.next_token_loss, next_token_loss)


def _replace_loss(patch: Patch, compute: Callable[[Tensor, Tensor, int], Tensor]) -> None:
    def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
        return compute(logits.flatten(0, -2), targets.flatten(), ignore_index)

    patch.replace(loss.token_loss, token_loss)


@mutant(
    "ignore-index-honoured-nowhere",
    component="loss",
    breaks=("GPT-5",),
    source="lukas-blecher/LaTeX-OCR#305",
)
def _(patch: Patch) -> None:
    """Targets to be ignored count as token 0."""
    _replace_loss(patch, lambda z, y, _: F.cross_entropy(z, y.clamp(min=0)))


@mutant("ignored-tokens-in-the-denominator", component="loss", breaks=("GPT-5",))
def _(patch: Patch) -> None:
    """The sum over counted tokens is divided by the number of all tokens."""
    _replace_loss(
        patch,
        lambda z, y, i: F.cross_entropy(z, y, ignore_index=i, reduction="sum") / len(y),
    )


@mutant("loss-summed", component="loss", breaks=("GPT-5",))
def _(patch: Patch) -> None:
    """The loss is the sum over the tokens, so it grows with the batch."""
    _replace_loss(patch, lambda z, y, i: F.cross_entropy(z, y, ignore_index=i, reduction="sum"))


@mutant("loss-in-bits", component="loss", breaks=("GPT-5", "GPT-6"))
def _(patch: Patch) -> None:
    """The logarithm is to base 2."""
    _replace_loss(patch, lambda z, y, i: F.cross_entropy(z, y, ignore_index=i) / math.log(2))


@mutant("softmax-before-the-loss", component="loss", breaks=("GPT-5", "GPT-6"))
def _(patch: Patch) -> None:
    """Probabilities are given to a loss that expects logits."""
    _replace_loss(patch, lambda z, y, i: F.cross_entropy(z.softmax(-1), y, ignore_index=i))


@mutant("loss-with-smoothed-labels", component="loss", breaks=("GPT-5",))
def _(patch: Patch) -> None:
    """A hundredth of each target is spread over the vocabulary."""
    _replace_loss(
        patch, lambda z, y, i: F.cross_entropy(z, y, ignore_index=i, label_smoothing=0.01)
    )


@mutant(
    "loss-by-gathering-log-probabilities",
    component="loss",
    breaks=("GPT-5", "GPT-6"),
    equivalent="Minus the gathered log-softmax, averaged over counted tokens, is cross-entropy.",
)
def _(patch: Patch) -> None:
    """Log-probabilities of the targets are gathered, masked and averaged by hand."""

    def compute(logits: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
        counted = targets != ignore_index
        chosen = logits.log_softmax(-1).gather(-1, targets.clamp(min=0)[:, None])[:, 0]
        return -chosen[counted].mean()

    _replace_loss(patch, compute)


def _scale_head(patch: Patch, factor: float) -> None:
    def scale(gpt: GPT) -> None:
        with torch.no_grad():
            gpt.head.weight.mul_(factor)

    _after_building(patch, scale)


@mutant(
    "head-of-unit-variance",
    component="init",
    breaks=("GPT-6",),
    source="huggingface/transformers#26441",
)
def _(patch: Patch) -> None:
    """The head's weights have a standard deviation of 1."""

    def widen(gpt: GPT) -> None:
        with torch.no_grad():
            gpt.head.weight.div_(gpt.head.weight.std())

    _after_building(patch, widen)


@mutant("head-variance-15-percent-high", component="init", breaks=("GPT-6",))
def _(patch: Patch) -> None:
    """The head's weights vary 15 % more than torch's initialisation lets them."""
    _scale_head(patch, math.sqrt(1.15))


@mutant("head-of-zeros", component="init", breaks=("GPT-6",))
def _(patch: Patch) -> None:
    """The head starts at zero: the loss is ln V to the last digit, and no gradient goes through."""
    _scale_head(patch, 0.0)


@mutant("head-reads-the-stream-unnormalised", component="norm", breaks=("GPT-6",))
def _(patch: Patch) -> None:
    """The final norm is left out, and the stream has grown beyond unit RMS."""

    def skip(gpt: GPT) -> None:
        gpt.norm = nn.Identity()

    _after_building(patch, skip)
