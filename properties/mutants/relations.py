"""Faults of a whole model in its batch, vocabulary, gradient, state and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, block, feed_forward, norm, rotary
from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.model import GPT


def _after_building(patch: Patch, change: Callable[[GPT], None]) -> None:
    original = GPT.__init__

    def build(self: GPT, *arguments: Any) -> None:
        original(self, *arguments)
        change(self)

    patch.method(GPT, "__init__", build)


def _around_forward(
    patch: Patch, change: Callable[[GPT, Callable[..., Any], Tensor, dict[str, Any]], Any]
) -> None:
    original = GPT.forward

    def forward(self: GPT, ids: Tensor, targets: Tensor | None = None, **options: Any) -> Any:
        def go_on(tokens: Tensor, **more: Any) -> Any:
            return original(self, tokens, targets, **{**options, **more})

        return change(self, go_on, ids, options)

    patch.method(GPT, "forward", forward)


@mutant("attention-over-the-batch", component="batch", breaks=("AUD-3",), source="IBM/TabFormer#14")
def _(patch: Patch) -> None:
    """Attention is fed (T, B, d) where it wants (B, T, d): it runs across the rows."""
    original = MultiHeadAttention.forward

    def forward(self: MultiHeadAttention, x: Tensor, **options: Any) -> Tensor:
        options.update(rotation=None)
        return original(self, x.transpose(0, 1), **options).transpose(0, 1)

    patch.method(MultiHeadAttention, "forward", forward)


@mutant("norm-over-the-batch-in-the-model", component="norm", breaks=("AUD-3",))
def _(patch: Patch) -> None:
    """The mean square is taken over the rows of the batch too."""

    def forward(self: norm.RMSNorm, x: Tensor) -> Tensor:
        square = x.pow(2).mean((0, -1), keepdim=True)
        return x * torch.rsqrt(square + self.eps) * self.weight

    patch.method(norm.RMSNorm, "forward", forward)


@mutant("position-counted-over-the-batch", component="batch", breaks=("AUD-3",))
def _(patch: Patch) -> None:
    """Logits of a row are scaled by its place in the batch: their order matters."""

    def change(_self: GPT, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        logits = go_on(ids)
        if isinstance(logits, tuple):
            return logits
        rows = torch.arange(len(ids), device=logits.device, dtype=logits.dtype)
        return logits * (1 + 0.01 * rows[:, None, None])

    _around_forward(patch, change)


@mutant("an-id-written-in-the-code", component="embedding", breaks=("AUD-4",))
def _(patch: Patch) -> None:
    """Odd ids are looked up one row too high."""
    _around_forward(
        patch, lambda self, go_on, ids, _o: go_on((ids + ids % 2) % self.embedding.num_embeddings)
    )


@mutant("ids-wrap-around", component="vocabulary", breaks=("GPT-7",))
def _(patch: Patch) -> None:
    """An id past the end is read modulo the vocabulary."""
    _around_forward(patch, lambda self, go_on, ids, _o: go_on(ids % self.embedding.num_embeddings))


@mutant("an-embedding-row-of-nan", component="embedding", breaks=("GPT-7",))
def _(patch: Patch) -> None:
    """The row of one id was never initialised."""

    def change(self: GPT) -> None:
        with torch.no_grad():
            self.embedding.weight[self.embedding.num_embeddings - 1] = float("nan")

    _after_building(patch, change)


@mutant("logits-overflow", component="shape", breaks=("GPT-7",))
def _(patch: Patch) -> None:
    """Logits are divided by zero."""

    def change(_self: GPT, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        logits = go_on(ids)
        return logits if isinstance(logits, tuple) else logits / 0

    _around_forward(patch, change)


def _draw_head(self: GPT) -> None:
    nn.init.normal_(self.head.weight)


@mutant(
    "head-with-unit-variance",
    component="init",
    breaks=("GPT-6",),
    source="huggingface/transformers#26441",
)
def _(patch: Patch) -> None:
    """The head's weights start with standard deviation 1."""
    _after_building(patch, _draw_head)


@mutant(
    "dropout-in-evaluation", component="dropout", breaks=("GPT-8",), source="karpathy/nanoGPT#240"
)
def _(patch: Patch) -> None:
    """A tenth of the attention weights is dropped whatever the mode."""
    original = attention.attention_weights

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        return F.dropout(original(scores, visible), 0.1)

    patch.replace(original, weights)


@mutant("a-forward-remembers", component="state", breaks=("GPT-8",))
def _(patch: Patch) -> None:
    """A trace of the logits of one call is added to the next."""

    def change(self: Any, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        logits = go_on(ids)
        if isinstance(logits, tuple):
            return logits
        before = getattr(self, "trace", 0.0)
        self.trace = logits.detach().mean()
        return logits + before

    _around_forward(patch, change)


@mutant(
    "second-norm-never-called",
    component="norm",
    breaks=("AUD-12",),
    source="ml-explore/mlx#1636",
)
def _(patch: Patch) -> None:
    """The first norm serves both branches; the second is never called."""

    def forward(self: block.Block, x: Tensor, **options: Any) -> Tensor:
        x = x + self.attention(self.attention_norm(x), **options)
        fed: Tensor = self.feed_forward(self.attention_norm(x))
        return x + fed

    patch.method(block.Block, "forward", forward)


@mutant(
    "rotation-without-gradient",
    component="gradient",
    breaks=("AUD-12",),
    source="pico-lm/pico-train#27",
)
def _(patch: Patch) -> None:
    """The rotation runs under no_grad: queries and keys never learn."""
    original = rotary.apply_rotation

    def rotate(x: Tensor, rotation: Any) -> Tensor:
        with torch.no_grad():
            return original(x, rotation)

    def project(self: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = whole(self, x)
        return query, key, value.detach()

    whole = MultiHeadAttention.project
    patch.replace(original, rotate)
    patch.method(MultiHeadAttention, "project", project)


@mutant("gradient-of-nan", component="gradient", breaks=("AUD-12",))
def _(patch: Patch) -> None:
    """A square root is taken at exactly 0, where its slope is infinite."""
    original = feed_forward.SwiGLU.forward

    def forward(self: feed_forward.SwiGLU, x: Tensor) -> Tensor:
        return original(self, x) + (x - x).sqrt()

    patch.method(feed_forward.SwiGLU, "forward", forward)


@mutant(
    "blocks-in-a-list",
    component="parameters",
    breaks=("AUD-12", "GPT-3"),
    source="EleutherAI/gpt-neox#267",
)
def _(patch: Patch) -> None:
    """The blocks are kept in a plain list: no parameter of theirs is registered."""

    def change(self: Any) -> None:
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks

    _after_building(patch, change)


@mutant("embedding-modified-in-place", component="state", breaks=("AUD-9",))
def _(patch: Patch) -> None:
    """Every forward shrinks the embedding a little."""

    def change(self: GPT, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        if not torch.is_grad_enabled():
            self.embedding.weight.mul_(0.999)
        return go_on(ids)

    _around_forward(patch, change)


@mutant("ids-modified-in-place", component="state", breaks=("AUD-9",))
def _(patch: Patch) -> None:
    """The ids that a caller gives are overwritten."""

    def change(_self: GPT, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        result = go_on(ids.clone())
        ids[:, 0] = 0
        return result

    _around_forward(patch, change)


@mutant("a-weight-outside-state-dict", component="state", breaks=("AUD-9",))
def _(patch: Patch) -> None:
    """A random vector that scales the logits is a plain attribute: it is not saved."""

    def keep(self: Any) -> None:
        self.hidden = torch.rand(self.config.vocabulary)

    def change(self: Any, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        logits = go_on(ids)
        return logits if isinstance(logits, tuple) else logits * self.hidden

    _after_building(patch, keep)
    _around_forward(patch, change)


@mutant("memory-never-initialised", component="init", breaks=("AUD-9",))
def _(patch: Patch) -> None:
    """The final gain holds what the memory held before: here 1e30."""

    def change(self: Any) -> None:
        with torch.no_grad():
            self.norm.weight.fill_(1e30)

    _after_building(patch, change)


@mutant("last-position-from-the-length", component="shape", breaks=("AUD-11",))
def _(patch: Patch) -> None:
    """A single token is squeezed away, and its logits come without their axis of time."""

    def change(_self: GPT, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        logits = go_on(ids)
        return logits if isinstance(logits, tuple) else logits.squeeze(1)

    _around_forward(patch, change)


@mutant("positions-wrap-around", component="shape", breaks=("AUD-11",))
def _(patch: Patch) -> None:
    """Past 200 tokens only the last 200 are read, and their logits stand in for all."""

    def change(_self: GPT, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        logits = go_on(ids[:, -200:])
        if isinstance(logits, tuple) or ids.shape[1] <= 200:
            return logits
        return torch.cat([logits, logits[:, : ids.shape[1] - 200]], dim=1)

    _around_forward(patch, change)


@mutant("ids-read-as-they-lie", component="shape", breaks=("AUD-11",))
def _(patch: Patch) -> None:
    """Ids are read from memory in storage order, whatever their strides."""

    def change(_self: GPT, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        return go_on(ids.as_strided(ids.shape, (ids.shape[1], 1)))

    _around_forward(patch, change)


@mutant("one-length-only", component="shape", breaks=("AUD-11",))
def _(patch: Patch) -> None:
    """The model runs at a length of 16 alone."""

    def change(_self: GPT, go_on: Callable[..., Any], ids: Tensor, _options: Any) -> Any:
        if ids.shape[1] != 16:
            raise ValueError("give 16 tokens")
        return go_on(ids)

    _around_forward(patch, change)


@mutant("tie-broken-by-a-cast", component="tying", breaks=("AUD-9",))
def _(patch: Patch) -> None:
    """Embedding and head are two parameters that share memory: a cast takes them apart."""

    def change(self: GPT) -> None:
        self.head.weight = nn.Parameter(self.embedding.weight.data)

    _after_building(patch, change)


@mutant("fused-without-scale", component="backend", breaks=("AUD-7",), source="mlc-ai/mlc-llm#3426")
def _(patch: Patch) -> None:
    """The fused path passes a scale of 1."""
    original = attention.fused_attention

    def fused(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return original(query, key, value, **{**options, "scale": 1.0})

    patch.replace(original, fused)


@mutant("scores-swallowed-by-a-bias", component="dtype", breaks=("AUD-8",))
def _(patch: Patch) -> None:
    """A million is added to every score and taken away again: float32 keeps steps of 1/16."""
    original = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        return original(query, key, **options) + 1e6 - 1e6

    patch.replace(original, scores)
