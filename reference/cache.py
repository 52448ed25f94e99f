"""The decode cache: keys and values of tokens already read, so that none is computed twice.

Keys are kept as they were rotated at their own positions; a later query needs no more of the past
than this (claim GEN-4).
"""

from __future__ import annotations

import torch
from torch import Tensor


class LayerCache:
    """Keys and values of one layer, oldest first."""

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of tokens held."""
        return 0 if self.key is None else self.key.shape[-2]

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append (B, H_kv, T, d) and return everything held, (B, H_kv, past + T, d).

        Raises:
            ValueError: If the batch is not the one that the cache was begun with.
        """
        if self.key is not None and self.value is not None:
            if key.shape[0] != self.key.shape[0]:
                raise ValueError(
                    f"The cache holds {self.key.shape[0]} sequences and was given "
                    f"{key.shape[0]}: begin a new cache for a new batch."
                )
            key = torch.cat((self.key, key), dim=-2)
            value = torch.cat((self.value, value), dim=-2)
        self.key, self.value = key, value
        return key, value


class KeyValueCache:
    """One `LayerCache` a layer; ``model(ids, cache=cache)`` reads it and extends it in place."""

    def __init__(self, layers: int) -> None:
        self.layers = [LayerCache() for _ in range(layers)]

    @property
    def length(self) -> int:
        """Number of tokens held: the position of the next one."""
        return self.layers[-1].length
