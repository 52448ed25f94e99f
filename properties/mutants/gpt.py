"""Faults of assembly, parameter count and memory layout, and of a model as it is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.properties.mutants.hosts import REFERENCE
from theodolite.properties.mutants.places import Built, built
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference import parameters
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


@mutant("last-block-left-out", "GPT-1", component="residual")
def _(patch: Patch) -> None:
    """The loop over the blocks ends one too early."""
    with_blocks(patch, lambda blocks: blocks[:-1])


@mutant("logits-of-the-last-position-only", "GPT-1", component="shape")
def _(patch: Patch) -> None:
    """Logits come for the last position alone, (B, 1, V)."""
    _change_logits(patch, lambda logits: logits[:, -1:])


@mutant("logits-with-axes-exchanged", "GPT-1", component="shape")
def _(patch: Patch) -> None:
    """Logits come as (B, V, T)."""
    _change_logits(patch, lambda logits: logits.transpose(1, 2))


@mutant("formula-without-the-final-norm", "GPT-2 GPT-3", component="parameters")
def _(patch: Patch) -> None:
    """The formula forgets the norm before the head."""
    _change_count(patch, lambda _, count: dataclasses.replace(count, final_norm=0))


@mutant("formula-with-full-key-heads", "GPT-2", component="parameters")
def _(patch: Patch) -> None:
    """The formula takes grouped keys and values to be as many as the queries."""
    original = parameters.parameter_count

    def count(config: GPTConfig) -> Count:
        return original(dataclasses.replace(config, kv_heads=None))

    patch.replace(original, count)


@mutant("formula-counts-a-tied-head", "GPT-2 GPT-3", component="tying")
def _(patch: Patch) -> None:
    """The formula counts a tied head a second time."""
    _change_count(patch, lambda _, count: dataclasses.replace(count, head=count.embedding))


@mutant("swiglu-of-width-four", "GPT-2", component="feed_forward")
def _(patch: Patch) -> None:
    """The gated network is 4·d wide, as the ungated one, and so half as large again."""

    def fill(self: GPTConfig) -> Any:
        shape = original(self)
        return shape._replace(feed_forward_width=self.feed_forward_width or 4 * self.width)

    original = GPTConfig.shape.fget  # type: ignore[attr-defined]
    patch.method(GPTConfig, "shape", property(fill))


@mutant("a-norm-that-nobody-uses", "GPT-2 GPT-3", component="parameters")
def _(patch: Patch) -> None:
    """Every block holds a third norm, which never runs."""
    original = Block.__init__

    def make(self: Block, config: GPTConfig) -> None:
        original(self, config)
        self.spare = nn.LayerNorm(config.width)

    patch.method(Block, "__init__", make)


@mutant("one-block-for-all", "GPT-1", component="parameters")
def _(patch: Patch) -> None:
    """The first block runs as often as there are blocks; the others never do."""
    with_blocks(patch, lambda blocks: blocks[:1] * len(blocks))


@mutant("feed-forward-before-attention", "GPT-1", component="residual")
def _(patch: Patch) -> None:
    """Each block runs its feed-forward network first."""

    def forward(self: Block, x: Tensor, **options: Any) -> Tensor:
        x = x + self.feed_forward(self.feed_forward_norm(x))
        attended: Tensor = self.attention(self.attention_norm(x), **options)
        return x + attended

    patch.method(Block, "forward", forward)


@mutant(
    "second-block-runs-first", "GPT-1", "assembly.order", component="residual", often="reference"
)
def _(patch: Patch) -> None:
    """Blocks run from the last to the first."""
    with_blocks(patch, lambda blocks: blocks[::-1])


# -- in every host that has the seam ---------------------------------------------------------------


@built(
    "head-with-unit-variance",
    "GPT-6",
    "loss.initial",
    needs="untied",
    source="huggingface/transformers#26441",
)
def _(own: Built) -> None:
    """The head starts with weights of variance 1."""
    nn.init.normal_(own.parts.head.weight)


@built(
    "embedding-made-anew", "GPT-6", "loss.initial", needs="tied", source="AnswerDotAI/ModernBERT#96"
)
def _(own: Built) -> None:
    """The embedding, which the head shares, is drawn anew with variance 1."""
    nn.init.normal_(own.parts.embedding.weight)


@built("an-embedding-row-of-nan", "GPT-7", "logits.finite vocabulary.finite", component="embedding")
def _(own: Built) -> None:
    """One token's vector was never initialised and holds NaN."""
    with torch.no_grad():
        own.parts.embedding.weight[5] = float("nan")


@built(
    "blocks-in-a-list",
    "AUD-12 GPT-3 GPT-2 TRAIN-1",
    "parameters.formula parameters.registered",
    component="parameters",
    source="EleutherAI/gpt-neox#267",
    often="nano",
)
def _(own: Built) -> None:
    """The blocks are kept in a plain list: no parameter of theirs is registered."""
    blocks = own.parts.layers()
    delattr(own.parts.owner, own.parts.blocks)
    setattr(own.parts.owner, own.parts.blocks, blocks)


@built("memory-never-initialised", "AUD-9", "parameters.sane training.smoke")
def _(own: Built) -> None:
    """The final gain holds what the memory held before: here 1e30."""
    with torch.no_grad():
        gain = next(own.parts.final_norm.parameters())  # whatever it is called
        gain.fill_(1e30)


@built("a-gain-that-nothing-fills", "AUD-9", "init.reproducible")
def _(own: Built) -> None:
    """The final norm's parameters are made by torch.empty, and left as the memory was."""
    for name, parameter in list(own.parts.final_norm.named_parameters()):
        setattr(own.parts.final_norm, name, nn.Parameter(torch.empty_like(parameter)))


@built(
    "tie-broken-after-building",
    "GPT-3",
    "declared.tied",
    component="tying",
    needs="tied",
    source="Modalities/modalities#357",
)
def _(own: Built) -> None:
    """The head's weight is made anew as a parameter of its own."""
    own.parts.head.weight = nn.Parameter(own.parts.head.weight.detach().clone())


@built("tie-broken-by-a-cast", "AUD-9", "tying.kept", component="tying", often="reference")
def _(own: Built) -> None:
    """Embedding and head are two parameters that share memory: a cast takes them apart."""
    own.parts.head.weight = nn.Parameter(own.parts.embedding.weight.data)


@built(
    "a-parameter-that-nobody-uses",
    "GPT-3",
    "modules.executed",
    component="parameters",
    often="reference",
)
def _(own: Built) -> None:
    """A matrix is registered and never read."""
    own.parts.owner.left_over = nn.Parameter(torch.randn(17, 13))


@built("weights-rounded-when-saved", "AUD-9", "state.round_trip state.files", component="state")
def _(own: Built) -> None:
    """The state dict holds weights rounded to bfloat16, whatever the model computes in."""

    def round_all(_: nn.Module, state: dict[str, Any], *__: Any) -> None:
        for name, tensor in state.items():
            state[name] = tensor.bfloat16().to(tensor.dtype)

    own.parts.model.register_state_dict_post_hook(round_all)


@built(
    "a-buffer-that-is-not-saved", "AUD-9", "state.meta state.files", component="state", needs="meta"
)
def _(own: Built) -> None:
    """The head's input is scaled by a buffer that only construction fills."""
    own.parts.head.register_buffer("boost", torch.full((1,), 1.25), persistent=False)
    own.parts.head.register_forward_pre_hook(lambda head, given: (given[0] * head.boost,))


# -- in the text of hosts ---------------------------------------------------------------


source("one-generator-for-all-models", "AUD-9", "init.reproducible", component="init",
    says="Weights are drawn from a generator that all models share and no seed "
         "reaches.")  # fmt: skip
source("evaluation-loses-the-dropout", "AUD-9", "init.train_and_eval", component="dropout",
    says="Switching to evaluation sets the rate of dropout to 0 for good.")  # fmt: skip
source("parts-keep-their-mode", "AUD-9", "init.train_and_eval", component="dropout",
    says="A block does not hand its mode on to its parts: dropout stays on in "
         "evaluation.")  # fmt: skip
source("last-layer-never-called", "AUD-12 GPT-3", "modules.executed", component="parameters",
    says="The loop over the layers ends one too early.")  # fmt: skip
source("tie-ignored", "AUD-9", "tying.kept", component="tying",
    says="Embedding and head are said to be one and are two.")  # fmt: skip
source("tie-broken-by-loading", "AUD-9", "tying.kept", component="tying",
    says="Loading a state dict gives the head a weight of its own.")  # fmt: skip
source("every-weight-of-unit-variance", "GPT-6", "loss.initial", component="init",
    says="All weights are drawn with variance 1.")  # fmt: skip
