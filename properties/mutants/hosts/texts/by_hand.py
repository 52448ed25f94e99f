"""A LLaMA-like model as people write them by hand: one file, one config, no framework."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab_size: int = 61
    block_size: int = 48
    n_layer: int = 2
    n_head: int = 6
    n_kv_head: int = 2
    n_embd: int = 48
    dropout: float = 0.1
    n_expert: int = 0
    flash: bool = False


class Norm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head, self.n_kv_head = config.n_head, config.n_kv_head
        self.head_dim = config.n_embd // config.n_head
        self.flash = config.flash
        self.dropout = config.dropout
        self.wq = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.wk = nn.Linear(config.n_embd, self.n_kv_head * self.head_dim, bias=False)
        self.wv = nn.Linear(config.n_embd, self.n_kv_head * self.head_dim, bias=False)
        self.wo = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x, cos, sin, pad_mask=None):
        B, T, C = x.shape
        q = self.wq(x).view(B, T, self.n_head, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k = k.repeat_interleave(self.n_head // self.n_kv_head, dim=1)
        v = v.repeat_interleave(self.n_head // self.n_kv_head, dim=1)
        mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()[None, None]
        if pad_mask is not None:
            mask = mask & pad_mask.bool()[:, None, None, :]
            mask = mask | torch.eye(T, dtype=torch.bool, device=x.device)  # no empty rows
        if self.flash:
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
            )
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            scores = scores.masked_fill(~mask, float("-inf"))
            weights = scores.softmax(dim=-1)
            weights = F.dropout(weights, self.dropout, self.training)
            y = weights @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.wo(y)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = 8 * config.n_embd // 3
        self.gate = nn.Linear(config.n_embd, hidden, bias=False)
        self.up = nn.Linear(config.n_embd, hidden, bias=False)
        self.down = nn.Linear(hidden, config.n_embd, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MoE(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.router = nn.Linear(config.n_embd, config.n_expert, bias=False)
        self.experts = nn.ModuleList(MLP(config) for _ in range(config.n_expert))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            share = (weights * (chosen == i)).sum(-1, keepdim=True)
            out = out + share * expert(x)
        return out


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln1 = Norm(config.n_embd)
        self.attn = Attention(config)
        self.ln2 = Norm(config.n_embd)
        self.mlp = MoE(config) if config.n_expert else MLP(config)

    def forward(self, x, cos, sin, pad_mask=None):
        x = x + self.attn(self.ln1(x), cos, sin, pad_mask)
        x = x + self.mlp(self.ln2(x))
        return x


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tok = nn.Embedding(config.vocab_size, config.n_embd)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = Norm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        head_dim = config.n_embd // config.n_head
        freqs = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angles = torch.arange(config.block_size).float()[:, None] * freqs
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, idx, attention_mask=None):
        B, T = idx.shape
        if self.config.block_size < T:
            raise ValueError(f"sequence of {T} is longer than {self.config.block_size}")
        x = self.tok(idx)
        for block in self.layers:
            x = block(x, self.cos[:T], self.sin[:T], attention_mask)
        return self.lm_head(self.ln_f(x))
