"""Small models as their authors write them, for the tests to write into files."""

PARTS = """
import math
import torch
import torch.nn as nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(C, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)

    def forward(self, x):
        return x + self.attention(self.norm(x))
"""

MODEL = (
    PARTS
    + """

class Model(nn.Module):
    def __init__(self, vocab_size, d_model=32, n_head=4, n_layer=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.Sequential(*[Block(d_model, n_head) for _ in range(n_layer)])
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        return self.head(self.blocks(self.embedding(ids)))
"""
)

CONFIGURED = (
    PARTS
    + """

class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.position = nn.Embedding(config.block_size, config.n_embd)
        self.blocks = nn.Sequential(
            *[Block(config.n_embd, config.n_head) for _ in range(config.n_layer)]
        )
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=config.bias)

    def forward(self, ids):
        x = self.embedding(ids) + self.position(torch.arange(ids.shape[1]))
        return self.head(self.blocks(x))
"""
)

SCRIPT = (
    """
import wandb_that_nobody_has
import torch
import torch.nn as nn
from torch.nn import functional as F

block_size = 256
n_embd = 768
n_head = 12
n_layer = 24
dropout = 0.2

with open("text_that_is_not_there.txt") as file:
    text = file.read()
chars = sorted(set(text))
vocab_size = len(chars)
stoi = {c: i for i, c in enumerate(chars)}
wandb_that_nobody_has.init()
"""
    + PARTS
    + """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, n_embd)
        self.position = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block(n_embd, n_head) for _ in range(n_layer)])
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(n_embd, vocab_size)

    def forward(self, ids):
        x = self.embedding(ids) + self.position(torch.arange(ids.shape[1]))
        return self.head(self.blocks(self.drop(x)))


model = Model()
for step in range(10):
    raise RuntimeError("this script trains")
"""
)
