"""TRAIN-2, TRAIN-3: the article's recipe, step for step; a run that goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from theodolite.fixtures.judging.judgement import judge, require
from theodolite.fixtures.oracles.corpus import story
from theodolite.fixtures.oracles.small_trainings import small_gpt, story_parts
from theodolite.properties import claim
from theodolite.reference import checkpoint, training
from theodolite.reference.config import GPTConfig

STEPS = 8


@claim("TRAIN-2")
def test_a_step_is_the_articles_step() -> None:
    """Cross-entropy, AdamW at 3e-3 with torch's defaults, gradients cleared, one update a batch.

    Written out with AdamW's own formula in float64: m/(√v + 1e-8) with both moments' bias taken
    out, and weights shrunk by rate · decay = 3e-5 first. Rounding moves a gradient by about 1e-15,
    which the 1e-8 makes at most 1e-7 rates a step: 1e-5 of a rate leaves room for eight steps. The
    decay alone comes to 8e-3 rates for a weight of 0.1.
    """
    train, _, symbols = story_parts()
    network = small_gpt(len(symbols)).double()
    weights = [w.detach().clone() for w in network.parameters()]
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
    trainer = training.Trainer(network, training.windows(train, 8, 32))
    again = small_gpt(len(symbols)).double()
    generator = torch.Generator().manual_seed(0)
    draw = training.windows(train, 8, 32)
    for step in range(1, STEPS + 1):
        with torch.no_grad():
            for parameter, weight in zip(again.parameters(), weights, strict=True):
                parameter.copy_(weight)
        ids, targets = draw(generator)
        loss = F.cross_entropy(again(ids).flatten(0, 1), targets.flatten())
        gradients = torch.autograd.grad(loss, list(again.parameters()))
        for weight, gradient, (mean, square) in zip(weights, gradients, moments, strict=True):
            mean.lerp_(gradient, 0.1)
            square.lerp_(gradient.square(), 0.001)
            unbiased = mean / (1 - 0.9**step)
            spread = (square / (1 - 0.999**step)).sqrt() + 1e-8
            weight.mul_(1 - 3e-3 * 0.01).sub_(3e-3 * unbiased / spread)
        judge(
            trainer.update(),
            float(loss.detach()),
            "the loss of each step is that of the article's recipe",
            bound=1e-6,
            where={"step": step - 1},
        )
    for (name, parameter), weight in zip(network.named_parameters(), weights, strict=True):
        judge(
            (parameter - weight) / 3e-3,
            0.0,
            "after eight steps the weights are those of AdamW at 3e-3 with decay 0.01",
            bound=1e-5,
            where={"parameter": name},
            remedy="are gradients cleared, is each batch used once, are rate and decay AdamW's?",
        )


@claim("TRAIN-3")
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_run_that_was_saved_and_resumed_is_the_run_that_never_stopped(
    tmp_path: Path, placement: str
) -> None:
    """Losses and weights agree to the last bit: weights, moments and windows all go on."""
    settings = training.TrainingSettings(batch=4, context=16)
    config = replace(GPTConfig(width=16, layers=2, heads=2), placement=placement)  # type: ignore[arg-type]
    text = story()[:4000]
    whole, first, second = (training.TextRun.begin(text, settings, config) for _ in range(3))
    for _ in first.steps(STEPS):
        pass
    checkpoint.save_checkpoint(first, tmp_path)
    checkpoint.resume(second, tmp_path)
    resumed = [record.train for record in second.steps(3 * STEPS, 5)]
    straight = [record.train for record in whole.steps(3 * STEPS, 5)]
    judge(
        torch.tensor(resumed, dtype=torch.float64),
        torch.tensor(straight[STEPS:], dtype=torch.float64),
        "the losses after resuming are those of the run that never stopped",
        axes=("step after resuming",),
        remedy="are the optimizer's moments and steps, and the windows' generator, restored too?",
    )
    require(
        second.trainer.losses == whole.trainer.losses, "the losses before the stop are remembered"
    )
    for (name, parameter), other in zip(
        second.model.named_parameters(), whole.model.parameters(), strict=True
    ):
        judge(parameter, other, "weights agree in the end", where={"parameter": name})
