"""Characters to ids, a training and a validation part, and batches of shifted windows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class CharacterTokenizer:
    """One id for each distinct character, in the characters' sorted order (claim DATA-1).

    A tokenizer made from another's `symbols` is the same tokenizer, so a checkpoint need only
    keep those.

    Args:
        text: The text whose distinct characters form the vocabulary.

    Attributes:
        symbols: The vocabulary as a string; the character at index `i` has the id `i`.

    Raises:
        ValueError: If `text` is empty.
    """

    def __init__(self, text: str) -> None:
        if not text:
            raise ValueError(
                "An empty text has no characters to make a vocabulary of: give a text."
            )
        self.symbols = "".join(sorted(set(text)))
        self._id_of = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        """Size V of the vocabulary."""
        return len(self.symbols)

    def encode(self, text: str) -> Tensor:
        """The ids of `text`, int64 of shape (len(text),).

        Raises:
            ValueError: If a character is not in the vocabulary.
        """
        try:
            return torch.tensor([self._id_of[symbol] for symbol in text], dtype=torch.int64)
        except KeyError as missing:
            symbol = missing.args[0]
            raise ValueError(
                f"The character {symbol!r} at index {text.index(symbol)} is not among the "
                f"{len(self)} of the vocabulary: remove it, or make the tokenizer from a text "
                "that holds it."
            ) from None

    def decode(self, ids: Tensor | Sequence[int]) -> str:
        """The text of `ids`, a one-dimensional tensor or a sequence of integers.

        Raises:
            ValueError: If an id is negative or not below V.
        """
        numbers = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        for number in numbers:
            if not 0 <= number < len(self):
                raise ValueError(
                    f"The id {number} is outside the vocabulary: ids run from 0 to {len(self) - 1}."
                )
        return "".join(self.symbols[number] for number in numbers)


def split(data: Tensor, fraction: float = 0.9) -> tuple[Tensor, Tensor]:
    """Cut `data` once: the first `fraction` for training, the rest for validation (claim DATA-1).

    Args:
        data: Ids, shape (N,).
        fraction: Share of the training part, between 0 and 1.

    Returns:
        The two parts, views of `data` of ``int(fraction * N)`` ids and of all that follow them.

    Raises:
        ValueError: If `fraction` is not between 0 and 1, or a part would be empty.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"The training fraction is {fraction}: give one between 0 and 1.")
    border = int(fraction * len(data))
    if border in (0, len(data)):
        raise ValueError(
            f"A text of {len(data)} tokens cannot be split {fraction:g} to {1 - fraction:g}: "
            "one part would be empty; give a longer text."
        )
    return data[:border], data[border:]


def draw_batch(
    data: Tensor, batch: int, context: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw random windows of `data`; the target is the input shifted by one (claim DATA-2).

    A window takes ``context + 1`` consecutive ids, so there are ``N - context`` of them, and each
    is as likely as any other. (The article draws below ``N - context - 1`` and never sees the
    last.)

    Args:
        data: Ids, shape (N,).
        batch: Number B of windows.
        context: Length T of an input.
        generator: Source of the random starts.

    Returns:
        Inputs and targets, each (B, T); ``targets[b, t]`` follows ``inputs[b, t]`` in `data`.

    Raises:
        ValueError: If `batch` or `context` is below 1, or `data` is shorter than one window.
    """
    if batch < 1 or context < 1:
        raise ValueError(
            f"A batch of {batch} windows of {context} tokens is empty: give at least 1 of each."
        )
    if len(data) <= context:
        raise ValueError(
            f"A context of {context} needs at least {context + 1} tokens and the data has "
            f"{len(data)}: give a longer text or a shorter context."
        )
    starts = torch.randint(
        len(data) - context, (batch, 1), generator=generator, device=generator.device
    )
    offsets = torch.arange(context + 1, device=data.device)
    windows = data[starts.to(data.device) + offsets]  # (B, T + 1)
    return windows[:, :-1], windows[:, 1:]
