"""A model as people write them for serving: cache, padding mask, positions, loss, generate."""

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
    n_embd: int = 48
    scheme: str = "rotary"  # or "learned", "alibi"
    window: int = 0  # 0: everything before
    flash: bool = False
    tied: bool = False


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head_dim = config.n_embd // config.n_head
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.wo = nn.Linear(config.n_embd, config.n_embd, bias=False)
        slopes = 2.0 ** (-8 * torch.arange(1, config.n_head + 1) / config.n_head)
        self.register_buffer("slopes", slopes, persistent=False)

    def rotate(self, x, positions, base=10000.0):
        half = self.head_dim // 2
        freqs = base ** (-torch.arange(half, device=x.device).float() / half)
        angles = positions[:, None, :, None] * freqs  # (B, 1, T, half)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def forward(self, x, positions, pad_mask, past, documents):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, -1, self.head_dim).transpose(1, 2) for t in (q, k, v))
        if self.config.scheme == "rotary":
            q = self.rotate(q, positions)
            k = self.rotate(k, positions)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        present = (k, v)
        S = k.size(2)
        i = torch.arange(S - T, S, device=x.device)[:, None]
        j = torch.arange(S, device=x.device)[None]
        mask = (j <= i)[None, None]
        if self.config.window:
            mask = mask & (i - j < self.config.window)
        if documents is not None:
            mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])
        if pad_mask is not None:
            mask = mask & pad_mask.bool()[:, None, None, :]
            mask = mask | (i == j)
        bias = torch.zeros(1, device=x.device, dtype=x.dtype)
        if self.config.scheme == "alibi":
            bias = (-self.slopes[:, None, None] * (i - j)).to(x.dtype)
        bias = bias.masked_fill(~mask, torch.finfo(x.dtype).min)
        if self.config.flash:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            y = (scores + bias).softmax(dim=-1) @ v
        y = y.transpose(1, 2).reshape(B, T, C)
        return self.wo(y), present


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln1 = nn.LayerNorm(config.n_embd)
        self.attn = Attention(config)
        self.ln2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd),
            nn.Dropout(0.1),
        )

    def forward(self, x, positions, pad_mask, past, docs):
        y, present = self.attn(self.ln1(x), positions, pad_mask, past, docs)
        x = x + y
        return x + self.mlp(self.ln2(x)), present


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        if config.scheme == "learned":
            self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init)
        if config.tied:
            self.lm_head.weight = self.wte.weight

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(
        self,
        idx,
        targets=None,
        attention_mask=None,
        past=None,
        document_ids=None,
        num_items_in_batch=None,
    ):
        B, T = idx.shape
        n = 0 if past is None else past[0][0].size(2)
        positions = torch.arange(n, n + T, device=idx.device).expand(B, T)
        if attention_mask is not None:
            positions = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -T:]
        if document_ids is not None:
            begins = F.pad(document_ids.diff(dim=1) != 0, (1, 0))
            positions = positions - (positions * begins).cummax(dim=1).values
        x = self.wte(idx)
        if self.config.scheme == "learned":
            x = x + self.wpe(positions)
        presents = []
        for block, kv in zip(self.layers, past or [None] * len(self.layers)):
            x, present = block(x, positions, attention_mask, kv, document_ids)
            presents.append(present)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())
            if num_items_in_batch is not None:
                loss = loss * (targets[:, 1:] != -100).sum() / num_items_in_batch
        return logits, loss, presents

    @torch.no_grad()
    def generate(
        self,
        idx,
        max_new_tokens,
        temperature=1.0,
        top_k=None,
        top_p=None,
        attention_mask=None,
        eos_token=None,
    ):
        done = torch.zeros(idx.size(0), 1, dtype=torch.bool, device=idx.device)
        for _ in range(max_new_tokens):
            window = idx[:, -self.config.block_size :]
            mask = attention_mask
            if mask is not None:
                mask = mask[:, -self.config.block_size :]
            logits = self(window, attention_mask=mask)[0][:, -1]
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                new = torch.multinomial(self.probabilities(logits, temperature, top_k, top_p), 1)
            if eos_token is not None:
                new = new.masked_fill(done, eos_token)
                done = done | (new == eos_token)
            idx = torch.cat([idx, new], dim=1)
            if attention_mask is not None:
                attention_mask = torch.cat([attention_mask, torch.ones_like(new)], dim=1)
            if done.all():
                break
        return idx

    def probabilities(self, logits, temperature, top_k, top_p):
        logits = logits / temperature
        if top_k is not None:
            kth = logits.topk(top_k).values[:, -1:]
            logits = logits.masked_fill(logits < kth, float("-inf"))
        if top_p is not None:
            ranked, order = logits.sort(descending=True)
            share = ranked.softmax(-1)
            before = share.cumsum(-1) - share
            ranked = ranked.masked_fill(before >= top_p, float("-inf"))
            logits = torch.full_like(logits, float("-inf")).scatter(-1, order, ranked)
        return logits.softmax(-1)


class Stateful(Model):
    """The same, with the cache kept inside."""

    def __init__(self, config):
        super().__init__(config)
        self.kept = None

    def reset_cache(self):
        self.kept = None

    def forward(self, idx, targets=None, attention_mask=None, use_cache=False):
        kept = self.kept if use_cache else None
        logits, loss, presents = super().forward(idx, targets, attention_mask, kept)
        if use_cache:
            self.kept = presents
        return logits, loss
