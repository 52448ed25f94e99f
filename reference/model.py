"""The GPT, put together: embedding, blocks, final norm, head (claim GPT-1)."""

from __future__ import annotations

import math
from typing import overload

import torch
from torch import Tensor, nn

from theodolite.reference.block import Block, build_norm
from theodolite.reference.cache import KeyValueCache
from theodolite.reference.config import GPTConfig
from theodolite.reference.loss import token_loss
from theodolite.reference.positions import LearnedPositions, SinusoidalPositions
from theodolite.reference.rotary import Rotary
from theodolite.reference.stability import soft_cap


class GPT(nn.Module):
    """A decoder-only Transformer: token ids in, logits of the next token out.

    ``GPT()`` is the article's model, built in the article's order, so that one seed gives both the
    same weights.

    Args:
        config: Its shape; None for the article's.
    """

    def __init__(self, config: GPTConfig | None = None) -> None:
        super().__init__()
        self.config = config = GPTConfig() if config is None else config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.positions = _build_positions(config)
        self.rotary = _build_rotary(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = build_norm(config) if config.placement == "pre" else nn.Identity()
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.embedding.weight
        if config.initial_std is not None or config.tied:
            self._initialise(config.initial_std or 0.02)

    @overload
    def forward(
        self,
        ids: Tensor,
        targets: None = None,
        *,
        cache: KeyValueCache | None = None,
        positions: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        ids: Tensor,
        targets: Tensor,
        *,
        cache: KeyValueCache | None = None,
        positions: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self,
        ids: Tensor,
        targets: Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        positions: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Logits of the token after each position.

        Args:
            ids: Token ids, (B, T).
            targets: What should come next at each position, (B, T), already shifted, -100 where
                it does not count.
            cache: What earlier calls have read (``model.new_cache()``); `ids` are then the tokens
                that follow, and the cache is extended in place.
            positions: Where each token stands, (T,) or (B, T); None for those after the cache's.
            attention_mask: 1 for a token and 0 for padding, (B, past + T): it covers what the
                cache holds too. Positions are then counted from each row's first token.

        Returns:
            Logits (B, T, V); or, with targets, logits and the mean loss.

        Raises:
            IndexError: If an id is outside the vocabulary.
            ValueError: If the shapes do not fit, or the sequence is longer than the context.
        """
        _require_ids(ids, self.config.vocabulary)
        if cache is not None:
            _require_layers(cache, self.config.layers)
        past = 0 if cache is None else cache.length
        self._require_room(past + ids.shape[1])
        mask = None
        if attention_mask is not None:
            _require_mask(attention_mask, (ids.shape[0], past + ids.shape[1]))
            mask = _visible_tokens(attention_mask, ids.shape[1])
        if positions is None:
            positions = _count_positions(ids, past, attention_mask)
        elif tuple(positions.shape) not in {tuple(ids.shape), tuple(ids.shape[1:])}:
            raise ValueError(
                f"positions have shape {tuple(positions.shape)} and ids {tuple(ids.shape)}: "
                "give one position for each token, (length,) or (batch, length)."
            )

        x: Tensor = self.embedding(ids)  # (B, T) -> (B, T, C)
        if self.positions is not None:
            x = x + self.positions(positions).to(x.dtype)
        rotation = None
        if self.rotary is not None:  # positions of one row each serve all of its heads
            rotation = self.rotary(positions if positions.dim() == 1 else positions[:, None])
        for layer, block in enumerate(self.blocks):
            layer_cache = None if cache is None else cache.layers[layer]
            x = block(x, rotation=rotation, mask=mask, cache=layer_cache)
        logits: Tensor = self.head(self.norm(x))  # (B, T, C) -> (B, T, V)
        if self.config.logit_softcap is not None:
            logits = soft_cap(logits, self.config.logit_softcap)
        return logits if targets is None else (logits, token_loss(logits, targets))

    def new_cache(self) -> KeyValueCache:
        """An empty decode cache for one batch of sequences."""
        return KeyValueCache(self.config.layers)

    def _initialise(self, std: float) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                writes_to_stream = name.endswith(("output.weight", "down.weight"))
                depth = 2 * self.config.layers if writes_to_stream else 1
                nn.init.normal_(parameter, std=std / math.sqrt(depth))

    def _require_room(self, length: int) -> None:
        context = self.config.context
        if context is not None and length > context:
            raise ValueError(
                f"The sequence is {length} tokens long and the context holds {context}: "
                f"give the last {context}, or build the model with a larger context."
            )


def _build_positions(config: GPTConfig) -> LearnedPositions | SinusoidalPositions | None:
    if config.positions == "learned" and config.context is not None:
        return LearnedPositions(config.context, config.width)
    return SinusoidalPositions(config.width) if config.positions == "sinusoidal" else None


def _build_rotary(config: GPTConfig) -> Rotary | None:
    if config.positions != "rotary":
        return None
    return Rotary(
        config.shape.head_width,
        base=config.rotary_base,
        pairing=config.rotary_pairing,
        interpolation=config.rotary_interpolation,
        length=config.context,
    )


def _count_positions(ids: Tensor, past: int, attention_mask: Tensor | None) -> Tensor:
    length = ids.shape[1]
    if attention_mask is None:
        return torch.arange(past, past + length, device=ids.device)
    counted = attention_mask.long().cumsum(dim=-1) - 1  # the first token of a row stands at 0
    return counted.clamp(min=0)[:, -length:]


def _visible_tokens(attention_mask: Tensor, length: int) -> Tensor:
    keys = attention_mask.shape[1]
    itself = torch.eye(keys, dtype=torch.bool, device=attention_mask.device)[-length:]
    # padding sees itself: a row that sees nothing would be NaN, and 0 · NaN reaches real tokens
    visible = attention_mask.bool()[:, None] | itself  # (B, 1, S) | (T, S) -> (B, T, S)
    return visible[:, None]  # -> (B, 1, T, S)


def _require_mask(attention_mask: Tensor, shape: tuple[int, int]) -> None:
    if tuple(attention_mask.shape) != shape:
        raise ValueError(
            f"attention_mask has shape {tuple(attention_mask.shape)}: give one entry for every "
            f"token, those in the cache included, shape {shape}."
        )


def _require_layers(cache: KeyValueCache, layers: int) -> None:
    if len(cache.layers) != layers:
        raise ValueError(
            f"The cache has {len(cache.layers)} layers and the model {layers}: "
            "begin one with model.new_cache()."
        )


def _require_ids(ids: Tensor, vocabulary: int) -> None:
    if ids.dim() != 2 or ids.is_floating_point():
        raise ValueError(
            f"ids have shape {tuple(ids.shape)} and dtype {ids.dtype}: "
            "give whole numbers of shape (batch, length)."
        )
    if torch.compiler.is_compiling() or ids.is_meta or ids.numel() == 0:
        return  # values cannot be looked at
    lowest, highest = int(ids.min()), int(ids.max())
    if lowest < 0 or highest >= vocabulary:
        outside = lowest if lowest < 0 else highest
        raise IndexError(
            f"Token id {outside} is outside the vocabulary: ids run from 0 to {vocabulary - 1}."
        )
