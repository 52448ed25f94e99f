"""Faults of the advice on hyperparameters, and of the published shapes."""

from __future__ import annotations

import dataclasses
from typing import Any

from theodolite.fixtures.anatomy import advice
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import block, config, parameters


def _replace_published(patch: Patch, name: str, **changes: Any) -> None:
    changed = dataclasses.replace(config.PUBLISHED[name], **changes)
    patch.replace(config.PUBLISHED, {**config.PUBLISHED, name: changed})


@mutant("advice-one-ratio-for-all", "HYP-1 HYP-3", component="parameters")
def _(patch: Patch) -> None:
    """A gated network is measured by 4·d as well."""
    original = advice._on_feed_forward
    patch.replace(original, lambda width, hidden, gated: original(width, hidden, gated and False))


@mutant("advice-blind-to-heads", "HYP-1 HYP-3", component="parameters")
def _(patch: Patch) -> None:
    """Heads times width may be anything."""
    original = advice._on_heads
    patch.replace(original, lambda _, heads, head_width: original(None, heads, head_width))


@mutant("advice-silent-on-dropout", "HYP-1 HYP-3", component="parameters")
def _(patch: Patch) -> None:
    """Dropout is passed over."""
    original = advice._on_regularisation
    patch.replace(original, lambda _, weight_decay: original(0.0, weight_decay))


@mutant("advice-depth-upside-down", "HYP-1", component="parameters")
def _(patch: Patch) -> None:
    """Width per layer is held against half the usual range."""
    patch.value(advice, "WIDTH_PER_LAYER", (50, 100))


@mutant("advice-vocabulary-ignored", "HYP-1", component="parameters")
def _(patch: Patch) -> None:
    """Any vocabulary will do."""
    patch.replace(advice._on_vocabulary, lambda _: iter(()))


@mutant("advice-states-no-usual-weight-decay", "HYP-1", component="parameters")
def _(patch: Patch) -> None:
    """The usual weight decay is taken to be none."""
    patch.value(advice, "WEIGHT_DECAY", 0.0)


@mutant("gpt3-one-layer-short", "HYP-2", component="parameters")
def _(patch: Patch) -> None:
    """GPT-3 has 95 layers."""
    _replace_published(patch, "gpt3-175b", layers=95)


@mutant("llama2-untrimmed-feed-forward", "HYP-2", component="parameters")
def _(patch: Patch) -> None:
    """LLaMA-2's d_ff is rounded to a multiple of 8 instead of 256."""
    _replace_published(patch, "llama2-7b", feed_forward_multiple=8)


@mutant("gpt2-untied", "HYP-2", component="parameters")
def _(patch: Patch) -> None:
    """GPT-2's head has a weight of its own."""
    _replace_published(patch, "gpt2", tied=False)


@mutant("count-forgets-biases", "HYP-2", component="parameters")
def _(patch: Patch) -> None:
    """The closed formula leaves biases out."""
    original = parameters.parameter_count
    patch.replace(original, lambda shape: original(dataclasses.replace(shape, bias=False)))


@mutant("block-without-second-norm", "HYP-2", component="parameters")
def _(patch: Patch) -> None:
    """One norm serves both branches of a block."""
    original = block.Block.__init__

    def init(self: block.Block, *given: Any) -> None:
        original(self, *given)
        self.feed_forward_norm = self.attention_norm

    patch.method(block.Block, "__init__", init)
