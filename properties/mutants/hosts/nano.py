"""A small GPT-2 in one file: fused qkv, learned positions, LayerNorm, GELU, tied head.

Written in the manner of the well-known teaching models, on purpose unlike the reference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class GPTConfig:
    """Sizes: all different, none a power of two."""

    vocab_size: int = 61
    block_size: int = 40
    n_layer: int = 3
    n_head: int = 5
    n_embd: int = 60
    dropout: float = 0.1


def attention_scale(q: Tensor) -> float:
    """1/√d for q (B, H, T, d)."""
    return 1.0 / math.sqrt(q.size(-1))


def tril(T: int, S: int) -> Tensor:
    """True at and below the diagonal, (T, S)."""
    return torch.ones(T, S, dtype=torch.bool).tril(S - T)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Torch's fused operator: (B, H, T, d) three times -> (B, H, T, d)."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """(B, T, C) -> (B, H, T, d)."""
    B, T, C = x.size()
    return x.view(B, T, C // head_dim, head_dim).transpose(1, 2)


def merge_heads(y: Tensor) -> Tensor:
    """(B, H, T, d) -> (B, T, C)."""
    B, H, T, d = y.size()
    return y.transpose(1, 2).contiguous().view(B, T, H * d)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """Over the last axis."""
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def gelu(x: Tensor) -> Tensor:
    """The exact form."""
    return F.gelu(x)


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Only in training."""
    return F.dropout(x, p, training)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Logits (B, T, V) against targets (B, T) already shifted; -100 does not count."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def position_ids(T: int) -> Tensor:
    """0 to T - 1."""
    return torch.arange(T)


def crop(idx: Tensor, block_size: int) -> Tensor:
    """The last `block_size` tokens."""
    return idx[:, -block_size:]


def next_token_probs(logits: Tensor, temperature: float, top_k: int | None) -> Tensor:
    """Probabilities (B, V) to draw the next token from."""
    logits = logits / temperature
    if top_k is not None:
        kth = logits.topk(min(top_k, logits.size(-1))).values[:, [-1]]
        logits = logits.masked_fill(logits < kth, -float("inf"))
    return logits.softmax(dim=-1)


class LayerNorm(nn.Module):
    """LayerNorm with its own forward."""

    def __init__(self, ndim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(..., C) -> (..., C)."""
        return layer_norm(x, self.weight, self.bias, self.eps)


class SelfAttention(nn.Module):
    """Causal attention with one matrix for q, k and v."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.head_dim = config.n_embd // config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.dropout = config.dropout

    def qkv(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, C) -> three times (B, H, T, d)."""
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        return (
            split_heads(q, self.head_dim),
            split_heads(k, self.head_dim),
            split_heads(v, self.head_dim),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        q, k, v = self.qkv(x)
        mask = tril(x.size(1), x.size(1)).to(x.device)
        y = attend(q, k, v, mask, attention_scale(q))
        return dropout(self.c_proj(merge_heads(y)), self.dropout, self.training)


class MLP(nn.Module):
    """Widen, GELU, narrow."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)
        self.dropout = config.dropout

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        return dropout(self.c_proj(gelu(self.c_fc(x))), self.dropout, self.training)


class Block(nn.Module):
    """Pre-norm block."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd)
        self.attn = SelfAttention(config)
        self.ln_2 = LayerNorm(config.n_embd)
        self.mlp = MLP(config)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        x = x + self.attn(self.ln_1(x))
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class NanoGPT(nn.Module):
    """Logits and loss in one call."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Ids (B, T), targets (B, T) already shifted -> logits (B, T, V), loss or None."""
        _, T = idx.size()
        if self.config.block_size < T:
            raise ValueError(f"{T} tokens do not fit into a block of {self.config.block_size}")
        x = self.wte(idx) + self.wpe(position_ids(T).to(idx.device))
        x = dropout(x, self.config.dropout, self.training)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else cross_entropy(logits, targets)

    @torch.no_grad()
    def generate(
        self,
        idx: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
    ) -> Tensor:
        """Append `max_new_tokens` tokens to idx (B, T)."""
        for _ in range(max_new_tokens):
            logits, _ = self(crop(idx, self.config.block_size))
            last = logits[:, -1]
            if temperature == 0:
                idx_next = last.argmax(dim=-1, keepdim=True)
            else:
                probs = next_token_probs(last, temperature, top_k)
                idx_next = torch.multinomial(probs, num_samples=1)
            idx = torch.cat((idx, idx_next), dim=1)
        return idx


def build() -> NanoGPT:
    """A small model with random weights."""
    return NanoGPT(GPTConfig())
