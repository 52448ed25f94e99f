"""Right decoders in the styles people write, each small and of any context."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS = 29, 24, 3


class OneHead(nn.Module):
    """A head with its own projections and its own triangle."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH // HEADS, bias=False) for _ in range(3))
        self.register_buffer("triangle", torch.ones(context, context).tril())

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        scores = self.q(x) @ self.k(x).transpose(1, 2) / (WIDTH // HEADS) ** 0.5
        hidden = self.triangle[:length, :length] == 0
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ self.v(x)


class LecturesBlock(nn.Module):
    def __init__(self, context: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(OneHead(context) for _ in range(HEADS))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.first(x)
        x = x + self.out(torch.cat([head(normed) for head in self.heads], -1))
        return x + self.narrow(self.wide(self.second(x)).relu())


class Lectures(nn.Module):
    """Learned positions, heads in a list, a table and a triangle of the context's size."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(context, WIDTH)
        self.blocks = nn.Sequential(*(LecturesBlock(context) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        places = self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(self.tokens(ids) + places)))


@dataclass
class Sizes:
    """How large a `Rotary` is, and how it turns."""

    vocab_size: int = VOCABULARY
    dim: int = WIDTH
    n_layers: int = 2
    n_heads: int = 6
    n_kv_heads: int = 2
    max_seq_len: int = 64
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    tie: bool = False


class RootMeanSquare(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


def table_of(sizes: Sizes) -> Tensor:
    """Angles (context, channels of a head / 2)."""
    head = sizes.dim // sizes.n_heads
    steps = sizes.rope_theta ** (-torch.arange(0, head, 2) / head)
    return torch.outer(torch.arange(sizes.max_seq_len).float(), steps)


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Pairs (2i, 2i + 1) of (B, H, T, d) turned by (T, d/2)."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class RotaryAttention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes, head = sizes, sizes.dim // sizes.n_heads
        self.q = nn.Linear(sizes.dim, sizes.n_heads * head, bias=False)
        self.k = nn.Linear(sizes.dim, sizes.n_kv_heads * head, bias=False)
        self.v = nn.Linear(sizes.dim, sizes.n_kv_heads * head, bias=False)
        self.o = nn.Linear(sizes.n_heads * head, sizes.dim, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (-1, self.sizes.dim // self.sizes.n_heads)).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        q, k = turn(q, angles), turn(k, angles)
        times = self.sizes.n_heads // self.sizes.n_kv_heads
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).flatten(-2))


class RotaryLayer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention = RotaryAttention(sizes)
        self.gate, self.up = (nn.Linear(sizes.dim, 40, bias=False) for _ in range(2))
        self.down = nn.Linear(40, sizes.dim, bias=False)
        self.first, self.second = (RootMeanSquare(sizes.dim, sizes.norm_eps) for _ in range(2))

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        x = x + self.attention(self.first(x), angles)
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Rotary(nn.Module):
    """Grouped queries, RMS norms, SwiGLU, and a table of angles as long as the context."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.config = sizes
        self.tokens = nn.Embedding(sizes.vocab_size, sizes.dim)
        self.layers = nn.ModuleList(RotaryLayer(sizes) for _ in range(sizes.n_layers))
        self.norm = RootMeanSquare(sizes.dim, sizes.norm_eps)
        self.head = nn.Linear(sizes.dim, sizes.vocab_size, bias=False)
        self.register_buffer("angles", table_of(sizes), persistent=False)
        if sizes.tie:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x, self.angles[: ids.shape[1]])
        return self.head(self.norm(x))


class Encoder(nn.Module):
    """torch's own encoder layers under a causal mask, a table of positions as a bare weight."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.randn(1, context, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 50, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(
            layer, 2, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.tokens(ids) + self.places[:, :length]
        return {"logits": self.head(self.body(x, mask=mask, is_causal=True))}


class Attend(nn.Module):
    """Attention over what is given, one projection for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        heads = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(-2))


def feed_forward() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 60), nn.GELU(), nn.Linear(60, WIDTH))


class Rows(nn.Module):
    """No class of a block: attentions, networks and norms in rows, the skips in forward."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.tokens, self.places = (nn.Embedding(n, WIDTH) for n in (VOCABULARY, context))
        self.attentions = nn.ModuleList(Attend() for _ in range(2))
        self.networks = nn.ModuleList(feed_forward() for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(5))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for i, (attend, network) in enumerate(zip(self.attentions, self.networks, strict=True)):
            x = x + attend(self.norms[2 * i](x))
            x = x + network(self.norms[2 * i + 1](x))
        return self.head(self.norms[4](x))


class Branch(nn.Module):
    """A block that gives what is to be added, and leaves adding to who calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.network = Attend(), feed_forward()

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attend(self.first(x))
        return attended + self.network(self.second(x + attended))


class AddedOutside(nn.Module):
    """``x = x + block(x)``: the parent adds the skip."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.tokens, self.places = (nn.Embedding(n, WIDTH) for n in (VOCABULARY, context))
        self.blocks = nn.ModuleList(Branch() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = x + block(x)
        return self.head(self.norm(x))


def rotary(context: int) -> Rotary:
    """A `Rotary` of this context."""
    return Rotary(Sizes(max_seq_len=context))
