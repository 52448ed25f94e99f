"""Writing on: draw a token from the last position's distribution, append it, repeat (claims GEN).

Fan et al. 2018 (top-k); Holtzman et al. 2020 (nucleus, top-p).
"""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.reference.model import GPT


@torch.no_grad()
def generate(
    model: GPT,
    ids: Tensor,
    new_tokens: int,
    *,
    context: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    use_cache: bool = False,
    end_token: int | None = None,
) -> Tensor:
    """Continue each row of `ids`.

    Args:
        model: Gives logits (B, T, V) for ids (B, T); with `use_cache`, also takes a `cache`.
        ids: The prompt, (B, T), at least one token.
        new_tokens: How many tokens to add.
        context: The model reads the last `context` tokens only; None for its own limit.
        temperature: Logits are divided by it; 0 takes the likeliest token.
        top_k: Draw among the k likeliest tokens only.
        top_p: Draw among the fewest likeliest tokens whose probabilities reach p together.
        generator: Where the randomness comes from; None for torch's own.
        use_cache: Whether to keep keys and values, and read only what is new.
        end_token: A row that has drawn it is finished and goes on with it; generation stops once
            all rows have.

    Returns:
        Prompt and continuation, (B, T + n); n is `new_tokens`, or less where every row ended.

    Raises:
        ValueError: If an argument is out of its range.
    """
    if ids.dim() != 2 or ids.shape[1] == 0:
        raise ValueError(
            f"The prompt has shape {tuple(ids.shape)}: give (batch, length) with at least 1 token."
        )
    if new_tokens < 0:
        raise ValueError(f"new_tokens is {new_tokens}: give 0 or more.")
    context = model.config.context if context is None else context
    if context is not None and context < 1:
        raise ValueError(f"context is {context}: give at least 1 token, or None for no limit.")
    cache = model.new_cache() if use_cache else None
    ended = torch.zeros_like(ids[:, :1], dtype=torch.bool)
    for _ in range(new_tokens):
        window = ids if context is None else ids[:, -context:]
        if cache is None:
            logits = model(window)
        else:
            if cache.length >= window.shape[1]:
                # the window has moved on: what the cache holds has read tokens that are now out
                cache = model.new_cache()
            logits = model(window[:, cache.length :], cache=cache)
        token = sample(
            logits[:, -1], temperature=temperature, top_k=top_k, top_p=top_p, generator=generator
        )  # (B, V) -> (B, 1)
        if end_token is not None:
            token = token.masked_fill(ended, end_token)
            ended |= token == end_token
        ids = torch.cat((ids, token), dim=1)  # (B, T) -> (B, T + 1)
        if end_token is not None and bool(ended.all()):
            break
    return ids


def sample(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw one id for each row of logits, (B, V) -> (B, 1). Arguments as in `generate`."""
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)  # (B, V) -> (B, 1)
    probabilities = distribution(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    return torch.multinomial(probabilities, 1, generator=generator)  # (B, V) -> (B, 1)


def distribution(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """The probabilities that `sample` draws from, (B, V): exactly 0 for what is left out.

    Top-k leaves out first, top-p among what remains. The token with which the probabilities reach
    `top_p` stays, so at least one always does.

    Raises:
        ValueError: If temperature, top_k or top_p is out of its range.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}: give 0 (greedy) or more.")
    logits = logits / temperature
    if top_k is not None:
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}: give at least 1, or None for all tokens.")
        largest = logits.topk(min(top_k, logits.shape[-1]), dim=-1)  # (B, V) -> (B, k)
        nowhere = torch.full_like(logits, float("-inf"))
        logits = nowhere.scatter(-1, largest.indices, largest.values)  # (B, k) -> (B, V)
    probabilities = logits.softmax(dim=-1)
    if top_p is None:
        return probabilities
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}: give a probability above 0 and at most 1.")
    ranked, order = probabilities.sort(dim=-1, descending=True)
    before = ranked.cumsum(dim=-1) - ranked  # what the likelier tokens hold together
    kept_ranked = ranked.masked_fill(before >= top_p, 0.0)
    kept = torch.zeros_like(ranked).scatter(-1, order, kept_ranked)  # back to the order of the ids
    return kept / kept.sum(dim=-1, keepdim=True)
