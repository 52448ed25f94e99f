"""A model as people write them to be fast: windows, a rolling cache, shared keys, experts."""

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
    window: int = 7  # keys, the query itself included; 0: everything before
    chunk: int = 0  # blocks outside which nothing is seen; 0: none
    every: int = 1  # every so many layers have the window
    n_expert: int = 4
    top_k: int = 2
    shared: int = 0  # width of what works on every token
    stacked: bool = False
    fused: bool = False


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.n_head, self.n_kv_head = config.n_head, config.n_kv_head
        self.head_dim = config.n_embd // config.n_head
        self.fused = config.fused
        self.chunk = config.chunk
        self.window = config.window if layer % config.every == 0 else 0
        self.wq = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.wk = nn.Linear(config.n_embd, self.n_kv_head * self.head_dim, bias=False)
        self.wv = nn.Linear(config.n_embd, self.n_kv_head * self.head_dim, bias=False)
        self.wo = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def rotate(self, x, positions):
        half = self.head_dim // 2
        angles = positions[:, None, :, None] * 10000.0 ** (-torch.arange(half).float() / half)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def visible(self, positions, places):
        i, j = positions[:, :, None], places[:, None, :]
        mask = j <= i
        if self.window:
            mask = mask & (j > i - self.window)
        if self.chunk:
            mask = mask & (i // self.chunk == j // self.chunk)
        return mask[:, None]

    def forward(self, x, positions, pad_mask, past):
        B, T, C = x.shape
        q = self.wq(x).view(B, T, self.n_head, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2)
        q, k = self.rotate(q, positions), self.rotate(k, positions)
        places = positions
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
            places = torch.cat([past[2], positions], dim=1)
        S = k.size(2)
        keep = self.window - 1 if self.window else S
        present = (k[:, :, -keep:], v[:, :, -keep:], places[:, -keep:])
        mask = self.visible(positions, places)
        if pad_mask is not None:
            mask = mask & pad_mask.bool()[:, None, None, -S:]
            mask = mask | torch.eye(S, dtype=torch.bool)[-T:]
        k = k.repeat_interleave(self.n_head // self.n_kv_head, dim=1)
        v = v.repeat_interleave(self.n_head // self.n_kv_head, dim=1)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            y = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1) @ v
        y = y.transpose(1, 2).reshape(B, T, C)
        return self.wo(y), present


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class StackedExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        n, width = config.n_expert, config.n_embd
        self.gate_up = nn.Parameter(0.02 * torch.randn(n, 4 * width, width))
        self.down = nn.Parameter(0.02 * torch.randn(n, width, 2 * width))

    def forward(self, i, x):
        gate, up = F.linear(x, self.gate_up[i]).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down[i])


class ListedExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.each = nn.ModuleList(
            MLP(config.n_embd, 2 * config.n_embd) for _ in range(config.n_expert)
        )

    def forward(self, i, x):
        return self.each[i](x)


class Experts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_expert, self.top_k = config.n_expert, config.top_k
        self.router = nn.Linear(config.n_embd, config.n_expert, bias=False)
        self.experts = StackedExperts(config) if config.stacked else ListedExperts(config)
        self.shared = MLP(config.n_embd, config.shared) if config.shared else None

    def forward(self, x):
        B, T, C = x.shape
        x = x.view(B * T, C)
        shares = self.router(x).softmax(dim=-1)
        weights, chosen = shares.topk(self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(x) if self.shared is None else self.shared(x)
        for i in range(self.n_expert):
            token, place = torch.where(chosen == i)
            y = weights[token, place, None] * self.experts(i, x[token])
            out = out.index_add(0, token, y)
        return out.view(B, T, C)


class Block(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.ln1 = nn.RMSNorm(config.n_embd, eps=1e-5)
        self.attn = Attention(config, layer)
        self.ln2 = nn.RMSNorm(config.n_embd, eps=1e-5)
        self.mlp = Experts(config)

    def forward(self, x, positions, pad_mask, past):
        y, present = self.attn(self.ln1(x), positions, pad_mask, past)
        x = x + y
        return x + self.mlp(self.ln2(x)), present


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.n_layer)])
        self.ln_f = nn.RMSNorm(config.n_embd, eps=1e-5)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, idx, attention_mask=None, past=None):
        B, T = idx.shape
        if attention_mask is not None:
            positions = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -T:]
        else:
            n = 0 if past is None else int(past[0][2].max()) + 1
            positions = torch.arange(n, n + T).expand(B, T)
        x = self.wte(idx)
        presents = []
        for block, kv in zip(self.layers, past or [None] * len(self.layers), strict=True):
            x, present = block(x, positions, attention_mask, kv)
            presents.append(present)
        return self.lm_head(self.ln_f(x)), presents
