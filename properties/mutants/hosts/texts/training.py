"""A LLaMA-like model written for training: norms with a backward by hand, activation checkpoints."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclass
class Config:
    vocab_size: int = 61
    n_layer: int = 2
    n_head: int = 6
    n_embd: int = 48
    dropout: float = 0.0
    use_checkpoint: bool = False


class RootMeanSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        x32 = x.float()
        inverse = torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + eps)
        normed = x32 * inverse
        ctx.save_for_backward(normed, inverse, weight)
        return normed.to(x.dtype) * weight

    @staticmethod
    def backward(ctx, grad):
        normed, inverse, weight = ctx.saved_tensors
        grad_normed = grad.float() * weight.float()
        along = (grad_normed * normed).mean(-1, keepdim=True)
        grad_x = inverse * (grad_normed - normed * along)
        grad_weight = (grad.float() * normed).flatten(0, -2).sum(0)
        return grad_x.to(grad.dtype), grad_weight.to(weight.dtype), None


class Norm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return RootMeanSquare.apply(x, self.weight, self.eps)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):
        gate, up = ctx.saved_tensors
        s = gate.sigmoid()
        grad_gate = grad * up * (s + gate * s * (1 - s))
        grad_up = grad * gate * s
        return grad_gate, grad_up


def rotation(positions, head_dim, x):
    freqs = 10000.0 ** (-torch.arange(0, head_dim, 2, device=x.device).float() / head_dim)
    angles = positions[..., None].float() * freqs
    return angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.head_dim = config.n_embd // config.n_head
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.proj = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x, cos, sin):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.n_head, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        mask = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
        y = (weights @ v).transpose(1, 2).reshape(B, T, C)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1 = Norm(config.n_embd)
        self.attn = Attention(config)
        self.norm2 = Norm(config.n_embd)
        self.gate_up = nn.Linear(config.n_embd, 8 * config.n_embd // 3 * 2, bias=False)
        self.down = nn.Linear(8 * config.n_embd // 3, config.n_embd, bias=False)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x, cos, sin):
        x = x + self.drop(self.attn(self.norm1(x), cos, sin))
        hidden = SwiGLU.apply(*self.gate_up(self.norm2(x)).chunk(2, dim=-1))
        return x + self.drop(self.down(hidden))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tok = nn.Embedding(config.vocab_size, config.n_embd)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.norm = Norm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, idx, positions=None):
        B, T = idx.shape
        if positions is None:
            positions = torch.arange(T, device=idx.device).expand(B, T)
        x = self.tok(idx)
        cos, sin = rotation(positions, self.config.n_embd // self.config.n_head, x)
        for layer in self.layers:
            if self.config.use_checkpoint and self.training:
                x = checkpoint(layer, x, cos, sin, use_reentrant=False)
            else:
                x = layer(x, cos, sin)
        return self.lm_head(self.norm(x))
