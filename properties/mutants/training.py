"""Faults of the training loop, of checkpoints, and of models that train happily all the same."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import (
    attention,
    averaging,
    bigram,
    block,
    checkpoint,
    data,
    feed_forward,
    model,
    norm,
    training,
)


@mutant("updates-never-applied", "TRAIN-1 TRAIN-2", component="training")
def _(patch: Patch) -> None:
    """The gradient is computed and the optimizer's step is never called."""

    def update(self: training.Trainer) -> float:
        loss = self.loss(*self.draw(self.generator))
        self.optimizer.zero_grad()
        loss.backward()
        self.losses.append(float(loss.detach()))
        return self.losses[-1]

    patch.method(training.Trainer, "update", update)


@mutant("gradients-accumulate", "TRAIN-2", component="training")
def _(patch: Patch) -> None:
    """Gradients are never cleared: each update follows the sum of all batches so far."""

    def update(self: training.Trainer) -> float:
        loss = self.loss(*self.draw(self.generator))
        loss.backward()
        self.optimizer.step()
        self.losses.append(float(loss.detach()))
        return self.losses[-1]

    patch.method(training.Trainer, "update", update)


def _with_rate(patch: Patch, **changes: float) -> None:
    original = training.Trainer.__init__

    def make(self: training.Trainer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        for name, value in changes.items():
            self.optimizer.param_groups[0][name] = value

    patch.method(training.Trainer, "__init__", make)


@mutant("rate-of-three-ten-thousandths", "TRAIN-2", component="training")
def _(patch: Patch) -> None:
    """The learning rate is 3e-4, which is common elsewhere, where the article has 3e-3."""
    _with_rate(patch, lr=3e-4)


@mutant("weights-do-not-decay", "TRAIN-2", component="training")
def _(patch: Patch) -> None:
    """Weight decay is 0: Adam in place of AdamW."""
    _with_rate(patch, weight_decay=0.0)


@mutant("attention-detached", "TRAIN-1", component="gradient")
def _(patch: Patch) -> None:
    """No gradient passes through attention; it stays as it was drawn, and training goes on."""
    original = attention.MultiHeadAttention.attend

    def attend(self: attention.MultiHeadAttention, *args: Tensor, **kwargs: Any) -> Tensor:
        return original(self, *args, **kwargs).detach()

    patch.method(attention.MultiHeadAttention, "attend", attend)


@mutant(
    "training-targets-unshifted",
    "TRAIN-1",
    component="training",
    source="huggingface/transformers#27517",
)
def _(patch: Patch) -> None:
    """The target is the token that is shown: the loss goes to 0 and nothing is learned."""
    original = data.draw_batch

    def draw_batch(
        text: Tensor, batch: int, context: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        inputs, _ = original(text, batch, context, generator)
        return inputs, inputs

    patch.replace(original, draw_batch)


@mutant("training-sees-the-future", "TRAIN-1 ATT-6", component="mask")
def _(patch: Patch) -> None:
    """Attention is not masked: the loss goes below what any predictor can reach."""
    original = attention.MultiHeadAttention.attend

    def attend(
        self: attention.MultiHeadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None,
        causal: bool,  # noqa: ARG001
    ) -> Tensor:
        return original(self, query, key, value, mask=mask, causal=False)

    patch.method(attention.MultiHeadAttention, "attend", attend)


@mutant("bigram-averages-the-past", "AVG-4", component="attention")
def _(patch: Patch) -> None:
    """The table's rows of all earlier tokens are averaged in."""

    def forward(self: bigram.Bigram, ids: Tensor) -> Tensor:
        return averaging.running_mean_by_product(self.table(ids))

    patch.method(bigram.Bigram, "forward", forward)


@mutant("attention-sees-itself-alone", "AVG-4", component="attention")
def _(patch: Patch) -> None:
    """Each position attends to nothing but itself: a bigram model in a GPT's clothes."""

    def attend(
        self: attention.MultiHeadAttention,  # noqa: ARG001
        query: Tensor,  # noqa: ARG001
        key: Tensor,  # noqa: ARG001
        value: Tensor,
        *,
        mask: Tensor | None,  # noqa: ARG001
        causal: bool,  # noqa: ARG001
    ) -> Tensor:
        return value.transpose(1, 2).flatten(2)

    patch.method(attention.MultiHeadAttention, "attend", attend)


def _restoring(patch: Patch, kept: str) -> None:
    original = checkpoint._restore

    def restore(trainer: training.Trainer, tensors: dict[str, Tensor]) -> None:
        generator = trainer.generator.get_state()
        original(trainer, tensors)
        if kept == "generator":
            trainer.generator.set_state(generator)
        else:
            trainer.optimizer.state.clear()

    patch.replace(original, restore)


@mutant("resume-forgets-the-moments", "TRAIN-3", component="training")
def _(patch: Patch) -> None:
    """Weights are restored and the optimizer begins anew."""
    _restoring(patch, "moments")


@mutant("resume-draws-the-first-windows-again", "TRAIN-3", component="training")
def _(patch: Patch) -> None:
    """The generator is not restored, so the resumed run sees the beginning's windows once more."""
    _restoring(patch, "generator")


@mutant("gate-without-its-activated-branch", "FFN-6", component="feed_forward")
def _(patch: Patch) -> None:
    """The activated branch is left out: the feed-forward network is linear."""

    def forward(self: feed_forward.SwiGLU, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.up(x))
        return out

    patch.method(feed_forward.SwiGLU, "forward", forward)


@mutant("feed-forward-detached", "FFN-6", component="feed_forward")
def _(patch: Patch) -> None:
    """Nothing but the last matrix of the gated network ever learns."""

    def forward(self: feed_forward.SwiGLU, x: Tensor) -> Tensor:
        out: Tensor = self.down((F.silu(self.gate(x)) * self.up(x)).detach())
        return out

    patch.method(feed_forward.SwiGLU, "forward", forward)


@mutant("root-mean-square-detached", "NORM-7", component="norm")
def _(patch: Patch) -> None:
    """RMSNorm's denominator is taken for a constant: its output is right, its gradient is not."""

    def forward(self: norm.RMSNorm, x: Tensor) -> Tensor:
        square = x.square().mean(dim=-1, keepdim=True).detach()
        return x * torch.rsqrt(square + self.eps) * self.weight

    patch.method(norm.RMSNorm, "forward", forward)


@mutant("post-norm-in-front", "RES-6", component="residual")
def _(patch: Patch) -> None:
    """What is called post-norm normalises the branches only, as pre-norm does."""
    from theodolite.reference import block

    original = block.Block.__init__

    def make(self: block.Block, *args: Any) -> None:
        original(self, *args)
        self.pre_norm = True

    patch.method(block.Block, "__init__", make)


@mutant("second-forward-differs", "AUD-12", component="gradient")
def _(patch: Patch) -> None:
    """A block that runs a second time for the same forward, as a checkpoint has it, gives less."""
    whole, original = model.GPT.forward, block.Block.forward
    ran: set[int] = set()

    @wraps(whole)
    def begin(self: model.GPT, *arguments: Any, **options: Any) -> Any:
        ran.clear()
        return whole(self, *arguments, **options)

    def forward(self: block.Block, x: Tensor, **options: Any) -> Tensor:
        again = id(self) in ran
        ran.add(id(self))
        return original(self, x * 0.9 if again else x, **options)

    patch.method(model.GPT, "forward", begin)
    patch.method(block.Block, "forward", forward)
