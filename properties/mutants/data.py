"""Faults of the tokenizer, the split and the batches."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import data

Windows = tuple[Tensor, Tensor]


def _windows(text: Tensor, starts: Tensor, context: int) -> Tensor:
    return text[(starts + torch.arange(context + 1)) % len(text)]


@mutant("vocabulary-in-order-of-appearance", "DATA-1", component="vocabulary")
def _(patch: Patch) -> None:
    """The vocabulary lists characters in the order in which the text first shows them."""

    def make(self: data.CharacterTokenizer, text: str) -> None:
        self.symbols = "".join(dict.fromkeys(text))
        self._id_of = {symbol: number for number, symbol in enumerate(self.symbols)}

    patch.method(data.CharacterTokenizer, "__init__", make)


@mutant("vocabulary-folds-case", "DATA-1", component="vocabulary")
def _(patch: Patch) -> None:
    """Capitals are lowered before encoding, so they never come back."""

    def encode(self: data.CharacterTokenizer, text: str) -> Tensor:
        numbers = [self._id_of.get(symbol.lower(), self._id_of[symbol]) for symbol in text]
        return torch.tensor(numbers, dtype=torch.int64)

    patch.method(data.CharacterTokenizer, "encode", encode)


@mutant("decode-one-off", "DATA-1", component="vocabulary")
def _(patch: Patch) -> None:
    """Decoding reads the table one entry before the right one, the last for the first."""

    def decode(self: data.CharacterTokenizer, ids: Tensor) -> str:
        return "".join(self.symbols[number - 1] for number in ids.tolist())

    patch.method(data.CharacterTokenizer, "decode", decode)


@mutant("split-overlaps", "DATA-1", component="training")
def _(patch: Patch) -> None:
    """Validation begins with the last training token."""

    def split(text: Tensor, fraction: float = 0.9) -> Windows:
        border = int(fraction * len(text))
        return text[:border], text[border - 1 :]

    patch.replace(data.split, split)


@mutant("split-shuffles", "DATA-1", component="training")
def _(patch: Patch) -> None:
    """Tokens are dealt to the two parts at random, which tears the text apart."""

    def split(text: Tensor, fraction: float = 0.9) -> Windows:
        order = torch.randperm(len(text), generator=torch.Generator().manual_seed(0))
        border = int(fraction * len(text))
        return text[order[:border]], text[order[border:]]

    patch.replace(data.split, split)


@mutant("split-eighty-to-twenty", "DATA-1", component="training")
def _(patch: Patch) -> None:
    """A fifth of the text is held back instead of a tenth."""

    def split(text: Tensor, fraction: float = 0.9) -> Windows:  # noqa: ARG001
        border = max(1, int(0.8 * len(text)))
        return text[:border], text[border:]

    patch.replace(data.split, split)


@mutant(
    "target-is-the-input", "DATA-2", component="training", source="huggingface/transformers#27517"
)
def _(patch: Patch) -> None:
    """The target is the visible current token: the model learns to copy."""
    original = data.draw_batch

    def draw_batch(text: Tensor, batch: int, context: int, generator: torch.Generator) -> Windows:
        inputs, _ = original(text, batch, context, generator)
        return inputs, inputs

    patch.replace(original, draw_batch)


@mutant("target-shifted-twice", "DATA-2", component="training")
def _(patch: Patch) -> None:
    """The target is the next token but one; after the end of the data comes its beginning."""

    def draw_batch(text: Tensor, batch: int, context: int, generator: torch.Generator) -> Windows:
        starts = torch.randint(len(text) - context, (batch, 1), generator=generator)
        windows = _windows(text, starts, context + 1)
        return windows[:, :-2], windows[:, 2:]

    patch.replace(data.draw_batch, draw_batch)


@mutant(
    "target-rolled-over-the-batch",
    "DATA-2",
    component="training",
    source="huggingface/transformers#47394",
)
def _(patch: Patch) -> None:
    """The last target of a row is the first input of the next row."""
    original = data.draw_batch

    def draw_batch(text: Tensor, batch: int, context: int, generator: torch.Generator) -> Windows:
        inputs, _ = original(text, batch, context, generator)
        return inputs, inputs.flatten().roll(-1).view_as(inputs)

    patch.replace(original, draw_batch)


@mutant("window-runs-past-the-end", "DATA-2", component="training")
def _(patch: Patch) -> None:
    """A window may start at any token; past the end it goes on at the beginning."""

    def draw_batch(text: Tensor, batch: int, context: int, generator: torch.Generator) -> Windows:
        starts = torch.randint(len(text), (batch, 1), generator=generator)
        windows = _windows(text, starts, context)
        return windows[:, :-1], windows[:, 1:]

    patch.replace(data.draw_batch, draw_batch)


@mutant("last-window-never-drawn", "DATA-2", component="training")
def _(patch: Patch) -> None:
    """The upper end of the draw, exclusive already, is lowered by one more."""

    def draw_batch(text: Tensor, batch: int, context: int, generator: torch.Generator) -> Windows:
        starts = torch.randint(max(1, len(text) - context - 1), (batch, 1), generator=generator)
        windows = _windows(text, starts, context)
        return windows[:, :-1], windows[:, 1:]

    patch.replace(data.draw_batch, draw_batch)


@mutant(
    "window-starts-taken-modulo",
    "DATA-2",
    component="training",
    equivalent="Starts reduced modulo the number of windows are the same windows; their chances "
    "differ by one part in 2^62 over the number of windows, which no run can tell.",
)
def _(patch: Patch) -> None:
    """Starts are drawn from a huge range and reduced modulo the number of windows."""

    def draw_batch(text: Tensor, batch: int, context: int, generator: torch.Generator) -> Windows:
        starts = torch.randint(2**62, (batch, 1), generator=generator) % (len(text) - context)
        windows = _windows(text, starts, context)
        return windows[:, :-1], windows[:, 1:]

    patch.replace(data.draw_batch, draw_batch)
