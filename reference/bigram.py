"""The plainest language model: look the next token up by the current one (claim AVG-4)."""

from __future__ import annotations

from torch import Tensor, nn


class Bigram(nn.Module):
    """A table of V rows: row i holds the logits of what follows token i."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (B, T) -> logits (B, T, V), each position from its own token alone."""
        logits: Tensor = self.table(ids)  # (B, T) -> (B, T, V)
        return logits
