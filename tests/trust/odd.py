"""Right decoders that do one thing in a way of their own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from decoders import (
    HEADS,
    VOCABULARY,
    WIDTH,
    Attend,
    Lectures,
    Rotary,
    Sizes,
    feed_forward,
)
from torch import Tensor, nn


class OwnEpsilon(nn.Module):
    """An RMS norm with no eps of its own: `F.rms_norm` takes the dtype's."""

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],))


class NoEpsilon(Rotary):
    """Norms without an eps, whose rounding differs with the dtype."""

    def __init__(self) -> None:
        super().__init__(Sizes(norm_eps=0.0))
        for layer in self.layers:
            layer.first, layer.second = nn.RMSNorm(WIDTH), OwnEpsilon()
        self.norm = OwnEpsilon()
        nn.init.normal_(self.tokens.weight, std=0.0005)


class Whole(nn.Module):
    """Positions and a triangle around one attention: for an `nn.Sequential`."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.norm = Attend(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attend(self.norm(x))


class Placed(nn.Module):
    def __init__(self, context: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = (nn.Embedding(n, WIDTH) for n in (VOCABULARY, context))

    def forward(self, ids: Tensor) -> Tensor:
        return self.tokens(ids) + self.places.weight[: ids.shape[1]]


def sequential() -> nn.Module:
    """A model that is an `nn.Sequential`, whose path is ''."""
    return nn.Sequential(
        Placed(), Whole(), Whole(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)
    )


class Empty(Lectures):
    """A parameter without elements: a feature that is switched off."""

    def __init__(self) -> None:
        super().__init__(64)
        self.extra = nn.Parameter(torch.empty(0, WIDTH))
        self.blocks[0].nothing = nn.Parameter(torch.empty(0))


class Unprintable(nn.Linear):
    """A layer whose `extra_repr` raises."""

    def extra_repr(self) -> str:
        raise RuntimeError("no words")


class Wordless(Lectures):
    def __init__(self) -> None:
        super().__init__(64)
        self.head = Unprintable(WIDTH, VOCABULARY)
        self.blocks[0].wide = Unprintable(WIDTH, 4 * WIDTH)


class Dynamic(Rotary):
    """Dynamic NTK: past 32 tokens the base grows with the length, as it is meant to."""

    def __init__(self) -> None:
        super().__init__(Sizes(max_seq_len=64))

    def forward(self, ids: Tensor) -> Tensor:
        head, length = WIDTH // 6, ids.shape[1]
        stretch = max(1.0, 2.0 * length / 32 - 1.0) ** (head / (head - 2))
        steps = (10000.0 * stretch) ** (-torch.arange(0, head, 2) / head)
        angles = torch.outer(torch.arange(length).float(), steps)
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x, angles)
        return self.head(self.norm(x))


class Detached(Lectures):
    """In evaluation weights are merged and detached on purpose; in training they learn."""

    def __init__(self) -> None:
        super().__init__(64)
        self.down = nn.Parameter(torch.randn(WIDTH, 2) * 0.1)
        self.up = nn.Parameter(torch.randn(2, VOCABULARY) * 0.1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        x = self.norm(self.blocks(x))
        weight = self.head.weight + (self.down @ self.up).T
        if not self.training:
            weight = weight.detach()
        return F.linear(x, weight, self.head.bias)


class Remembers(Rotary):
    """In evaluation it writes keys into a buffer, in place, as caches do."""

    def __init__(self) -> None:
        super().__init__(Sizes())
        self.register_buffer("cache", torch.zeros(16, 64, WIDTH), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        for layer in self.layers:
            if not self.training:
                rows, length = ids.shape
                self.cache[:rows, :length] = x
                x = self.cache[:rows, :length]
            x = layer(x, self.angles[: ids.shape[1]])
        return self.head(self.norm(x))


class OneRow(Lectures):
    """Its generate is documented for one row, and writes only the first."""

    def __init__(self) -> None:
        super().__init__(64)

    @torch.no_grad()
    def generate(self, ids: Tensor, max_new_tokens: int) -> Tensor:
        """Continue a prompt of one row, (1, T)."""
        for _ in range(max_new_tokens):
            new = self(ids)[0, -1].softmax(-1).multinomial(1)
            ids = torch.cat([ids[:1], new[None]], 1)
        return ids


class Joined(nn.Module):
    """Attention that gives its new keys and values alone, for the caller to join."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        new = (k, v)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        before = k.shape[2] - q.shape[2]
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(before)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(mixed.transpose(1, 2).flatten(-2)), new


class OnlyNew(nn.Module):
    """A cache that returns the new keys alone and leaves joining to the caller."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = (nn.Embedding(n, WIDTH) for n in (VOCABULARY, 64))
        self.attentions = nn.ModuleList(Joined() for _ in range(2))
        self.networks = nn.ModuleList(feed_forward() for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(5))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor, past_key_values: list | None = None) -> tuple:
        before = 0 if past_key_values is None else past_key_values[0][0].shape[2]
        x = self.tokens(ids) + self.places.weight[before : before + ids.shape[1]]
        news = []
        for i, (attend, network) in enumerate(zip(self.attentions, self.networks, strict=True)):
            past = None if past_key_values is None else past_key_values[i]
            y, new = attend(self.norms[2 * i](x), past)
            news.append(new)
            x = x + y
            x = x + network(self.norms[2 * i + 1](x))
        return self.head(self.norms[4](x)), news


class Router(nn.Module):
    """Top 2 of 4 experts, chosen with a frozen bias of the size that trained ones have."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4, bias=False)
        self.register_buffer("bias", torch.tensor([0.05, 0.0, 0.0, -0.05]))
        self.experts = nn.ModuleList(feed_forward() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        shares = self.gate(x).sigmoid()
        chosen = (shares + self.bias).topk(2, -1).indices
        weights = shares.gather(-1, chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number)).sum(-1, keepdim=True)
            if bool((share > 0).any()):
                result = result + share * expert(x)
        return result


class Biased(Lectures):
    def __init__(self) -> None:
        super().__init__(64)
        for block in self.blocks:
            block.wide, block.narrow = Router(), nn.Identity()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            y = block.first(x)
            x = x + block.out(torch.cat([head(y) for head in block.heads], -1))
            x = x + block.wide(block.second(x))
        return self.head(self.norm(x))


class Penalised(Lectures):
    """Its generate makes what was written less likely, unless it is told not to."""

    def __init__(self) -> None:
        super().__init__(64)

    @torch.no_grad()
    def generate(
        self,
        ids: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        repetition_penalty: float = 1.3,
    ) -> Tensor:
        for _ in range(max_new_tokens):
            logits = self(ids)[:, -1]
            seen = logits.gather(1, ids)
            less = torch.where(seen > 0, seen / repetition_penalty, seen * repetition_penalty)
            logits = logits.scatter(1, ids, less) / temperature
            if top_k is not None:
                least = logits.topk(min(top_k, VOCABULARY)).values[:, -1:]
                logits = logits.masked_fill(logits < least, float("-inf"))
            ids = torch.cat([ids, logits.softmax(-1).multinomial(1)], 1)
        return ids


class Adapted(nn.Linear):
    """A low-rank adapter: merged into the weight in evaluation, taken out in training."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, bias=False)
        self.down = nn.Parameter(torch.randn(2, width) * 0.1)
        self.up = nn.Parameter(torch.randn(width, 2) * 0.1)
        self.is_merged = False

    def train(self, mode: bool = True) -> Adapted:
        super().train(mode)
        if mode == self.is_merged:
            with torch.no_grad():
                self.weight.add_((self.up @ self.down) * (-1 if mode else 1))
            self.is_merged = not mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight)
        return y if self.is_merged else y + x @ self.down.T @ self.up.T


class Merging(Rotary):
    def __init__(self) -> None:
        super().__init__(Sizes())
        for layer in self.layers:
            layer.attention.q = Adapted(WIDTH)


class SinkAttention(nn.Module):
    """A learned sink of each head, as a factor on its output: sigmoid(logsumexp - sink)."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.sinks = nn.Parameter(torch.linspace(-1, 1, HEADS))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
        share = (scores.logsumexp(-1) - self.sinks[:, None]).sigmoid()
        mixed = scores.softmax(-1) @ v * share[..., None]
        return self.out(mixed.transpose(1, 2).flatten(-2))


class SinkBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.network = SinkAttention(), feed_forward()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.network(self.second(x))


class Sinks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(SinkBlock() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))


class InlineBlock(nn.Module):
    """Attention is written in the block itself, and its network is an `nn.Sequential`."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.network = network()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(y).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.network(self.second(x))


class Inline(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = (nn.Embedding(n, WIDTH) for n in (VOCABULARY, 64))
        self.blocks = nn.ModuleList(InlineBlock() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class TwiceAttendingBlock(nn.Module):
    """Two attentions and a network, as decoders of torch have them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.second = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.network = network()

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        for norm, attention in zip(self.norms, (self.first, self.second), strict=False):
            y = norm(x)
            x = x + attention(y, y, y, attn_mask=hidden, need_weights=False)[0]
        return x + self.network(self.norms[2](x))


class Crossed(Inline):
    """A model of such blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(TwiceAttendingBlock() for _ in range(2))
