"""Training: predict the next character, one batch of windows at a time (claims TRAIN).

The article's settings are the defaults: batches of 32 windows of 128 characters, AdamW at 3e-3.
A run is a function of its text, its settings and its seed: the windows come from a generator of
their own, validation looks at the same windows each time, and neither touches torch's own generator
nor the other. So how often a run is evaluated, saved or stopped does not change it.

Loshchilov and Hutter 2019 (AdamW).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.reference.config import GPTConfig
from theodolite.reference.data import CharacterTokenizer, draw_batch, split
from theodolite.reference.generation import generate
from theodolite.reference.loss import token_loss
from theodolite.reference.model import GPT
from theodolite.reference.products import fast_products

Batches = Callable[[torch.Generator], tuple[Tensor, Tensor]]
"""Draws inputs and targets, each (B, T), the target at t being the token after the input at t."""


class DivergenceError(ArithmeticError):
    """The loss is no longer a finite number."""


@dataclass(frozen=True)
class TrainingSettings:
    """All that makes a run what it is, beside text and model.

    Attributes:
        batch: Windows in a batch, B.
        context: Tokens in a window, T.
        learning_rate: Of AdamW.
        weight_decay: Of AdamW.
        seed: Of the weights, the windows and the sample.
        evaluation_batches: Batches of validation text in one evaluation.

    Raises:
        ValueError: If a number is out of its range.
    """

    batch: int = 32
    context: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    seed: int = 0
    evaluation_batches: int = 10

    def __post_init__(self) -> None:
        for name in ("batch", "context", "evaluation_batches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: give at least 1.")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"The learning rate is {self.learning_rate}: give one above 0.")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"The weight decay is {self.weight_decay}: give 0 or more.")


class Trainer:
    """Lowers the mean next-token loss of a model by AdamW.

    Args:
        model: Ids (B, T) to logits (B, T, V). It is changed.
        draw: Where the batches come from.
        settings: Learning rate, weight decay and seed; None for the article's.
        compiled: Whether forward and loss are compiled by torch first.
        fast: Whether linear layers run through `fast_products`; worth it from a width of about 64.

    Attributes:
        losses: Training loss of every step so far, each measured before its update.
        generator: What `draw` draws from.
        optimizer: Its state and the generator's are what a checkpoint has to keep.
    """

    def __init__(
        self,
        model: nn.Module,
        draw: Batches,
        settings: TrainingSettings | None = None,
        *,
        compiled: bool = False,
        fast: bool = False,
    ) -> None:
        settings = settings or TrainingSettings()
        self.model, self.draw, self.fast = model, draw, fast
        parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            parameters,
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=all(parameter.device.type in {"cpu", "cuda"} for parameter in parameters),
        )
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.losses: list[float] = []
        loss = self._fast_loss if fast else self.loss
        self._loss = torch.compile(loss) if compiled else loss

    @property
    def step(self) -> int:
        """How many updates have been made."""
        return len(self.losses)

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Mean loss of one batch, a scalar."""
        return token_loss(self.model(ids), targets)

    def _fast_loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        with fast_products():
            return self.loss(ids, targets)

    def products(self) -> AbstractContextManager[Any]:
        """How matrices are multiplied in this training."""
        return fast_products() if self.fast else nullcontext()

    def update(self) -> float:
        """Draw a batch and follow its gradient; the loss before the update, in nats a token.

        Raises:
            DivergenceError: If the loss is not finite. The weights stay as they were.
        """
        ids, targets = self.draw(self.generator)
        loss = self._loss(ids, targets)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise DivergenceError(
                f"The loss is {value} at step {self.step}: give a lower learning rate."
            )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(value)
        return value

    def run(self, steps: int) -> list[float]:
        """Make updates until there are `steps` of them; the losses of all."""
        while self.step < steps:
            self.update()
        return self.losses


@torch.no_grad()
def evaluate(model: nn.Module, draw: Batches, batches: int = 10, seed: int = 0) -> float:
    """Mean loss over `batches` batches, in nats a token; the same batches for the same seed.

    Raises:
        DivergenceError: If it is not finite.
    """
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(batches):
        ids, targets = draw(generator)
        losses.append(float(token_loss(model(ids), targets)))
    mean = sum(losses) / batches
    if not math.isfinite(mean):
        raise DivergenceError(f"The validation loss is {mean}: give a lower learning rate.")
    return mean


def windows(data: Tensor, batch: int, context: int) -> Batches:
    """Batches of random windows of `data`, ids of shape (N,).

    Raises:
        ValueError: If `data` is shorter than one window.
    """
    if len(data) <= context:
        raise ValueError(
            f"A context of {context} needs parts of at least {context + 1} characters, and one has "
            f"{len(data)}: give a longer text, or a shorter context."
        )
    return lambda generator: draw_batch(data, batch, context, generator)


@dataclass(frozen=True)
class Record:
    """What one step showed.

    Attributes:
        step: Number of the step; the first is 0.
        train: Loss of its batch, before the update.
        validation: Loss of the validation text, after the update; None where it was not measured.
    """

    step: int
    train: float
    validation: float | None = None


@dataclass
class TextRun:
    """A GPT that learns a text, character by character. `TextRun.begin` makes one.

    Attributes:
        tokenizer: Characters to ids and back.
        model: The GPT.
        trainer: What trains it.
        validation: Batches of the text's last tenth.
        settings: What makes the run what it is.
        digest: SHA-256 of the text, by which a checkpoint knows it again.
        records: The steps at which validation was measured.
        seconds: Time spent on updates so far.
    """

    tokenizer: CharacterTokenizer
    model: GPT
    trainer: Trainer
    validation: Batches
    settings: TrainingSettings
    digest: str
    records: list[Record] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def begin(
        cls,
        text: str,
        settings: TrainingSettings | None = None,
        config: GPTConfig | None = None,
        *,
        device: torch.device | str = "cpu",
        compiled: bool = False,
    ) -> TextRun:
        """Tokenize and split `text`, and build the model with weights from the seed.

        Args:
            text: At least ten windows long, so that the validation tenth holds one.
            settings: None for the article's.
            config: The model's shape, None for the article's; vocabulary and context are taken
                from text and settings.
            device: Where to train.
            compiled: As in `Trainer`.

        Raises:
            ValueError: If the text is too short, or no model can have the shape.
        """
        settings = settings or TrainingSettings()
        tokenizer = CharacterTokenizer(text)
        train, validation = (
            windows(part, settings.batch, settings.context)
            for part in split(tokenizer.encode(text).to(device))
        )
        config = replace(config or GPTConfig(), vocabulary=len(tokenizer), context=settings.context)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            model = GPT(config).to(device)
        trainer = Trainer(model, train, settings, compiled=compiled, fast=True)
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return cls(tokenizer, model, trainer, validation, settings, digest)

    def steps(self, last: int, evaluate_every: int = 500) -> Iterator[Record]:
        """Make updates until there are `last` of them, and yield what each showed.

        Validation is measured after every `evaluate_every`-th, from step 0 on, and after the last.
        """
        while self.trainer.step < last:
            step = self.trainer.step
            began = time.perf_counter()
            train = self.trainer.update()
            self.seconds += time.perf_counter() - began
            if step % evaluate_every and step != last - 1:
                yield Record(step, train)
                continue
            record = Record(step, train, self.evaluate())
            self.records.append(record)
            yield record

    def evaluate(self) -> float:
        """Loss on validation text, in nats a character."""
        batches, seed = self.settings.evaluation_batches, self.settings.seed
        with self.trainer.products():
            return evaluate(self.model, self.validation, batches, seed)

    def sample(self, prompt: str, characters: int) -> str:
        """Let the model go on after `prompt`.

        Raises:
            ValueError: If the prompt is empty or has a character that the text has not.
        """
        device = self.model.head.weight.device
        generator = torch.Generator(device).manual_seed(self.settings.seed)
        ids = self.tokenizer.encode(prompt)[None].to(device)  # (1, T)
        written = generate(self.model, ids, characters, generator=generator, use_cache=True)
        return self.tokenizer.decode(written[0])
