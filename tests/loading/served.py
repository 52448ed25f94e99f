"""Models as they are written for serving: a cache inside, one token or one row at a time."""

ONE_TOKEN = """
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Sizes:
    width: int = 512
    n_layers: int = 8
    n_heads: int = 8
    vocab_size: int = -1
    max_batch_size: int = 16
    max_seq_len: int = 256


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads, self.size = sizes.n_heads, sizes.width // sizes.n_heads
        self.query = nn.Linear(sizes.width, sizes.width, bias=False)
        self.key = nn.Linear(sizes.width, sizes.width, bias=False)
        self.value = nn.Linear(sizes.width, sizes.width, bias=False)
        self.out = nn.Linear(sizes.width, sizes.width, bias=False)
        kept = sizes.max_batch_size, sizes.max_seq_len, self.heads, self.size
        self.keys, self.values = torch.zeros(kept), torch.zeros(kept)

    def forward(self, x, start_pos):
        rows = len(x)
        split = rows, 1, self.heads, self.size
        query = self.query(x).view(split)
        self.keys[:rows, start_pos : start_pos + 1] = self.key(x).view(split)
        self.values[:rows, start_pos : start_pos + 1] = self.value(x).view(split)
        keys, values = self.keys[:rows, : start_pos + 1], self.values[:rows, : start_pos + 1]
        scores = query.transpose(1, 2) @ keys.permute(0, 2, 3, 1) / self.size**0.5
        mixed = scores.softmax(-1) @ values.transpose(1, 2)
        return self.out(mixed.transpose(1, 2).reshape(rows, 1, -1))


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.attention = Attention(sizes)
        self.feed = nn.Sequential(
            nn.Linear(sizes.width, 4 * sizes.width),
            nn.GELU(),
            nn.Linear(4 * sizes.width, sizes.width),
        )
        self.first, self.second = nn.LayerNorm(sizes.width), nn.LayerNorm(sizes.width)

    def forward(self, x, start_pos):
        x = x + self.attention(self.first(x), start_pos)
        return x + self.feed(self.second(x))


class Served(nn.Module):
    def __init__(self, config: Sizes):
        super().__init__()
        assert config.vocab_size > 0
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.places = nn.Embedding(config.max_seq_len, config.width)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)

    def forward(self, tokens, start_pos):
        assert tokens.shape[1] == 1, "one token at a time"
        x = self.tokens(tokens) + self.places(torch.tensor([start_pos]))
        for layer in self.layers:
            x = layer(x, start_pos)
        return self.head(self.norm(x))
"""
"""A cache that its modules keep, written at the position that each call names."""

ONE_ROW = """
import torch
from torch import nn


class Row(nn.Module):
    def __init__(self, vocab_size, n_embd, n_head, n_layer, block_size):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, n_embd)
        self.places = nn.Embedding(block_size, n_embd)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                n_embd, n_head, 4 * n_embd, 0.0, batch_first=True, norm_first=True
            )
            for _ in range(n_layer)
        )
        self.norm = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, ids):
        if ids.shape[0] != 1:
            raise NotImplementedError("one sequence at a time")
        length = ids.shape[1]
        x = self.tokens(ids) + self.places(torch.arange(length))
        hidden = torch.full((length, length), float("-inf")).triu(1)
        for layer in self.layers:
            x = layer(x, src_mask=hidden)
        return self.head(self.norm(x))
"""
"""A model that takes a single sequence."""

_ONE = """        if ids.shape[0] != 1:
            raise NotImplementedError("one sequence at a time")
"""
_LOOP = "for layer in self.layers:\n"
_EACH = "for at, layer in enumerate(self.layers):\n            assert kv_caches[at] is None\n"

NONE_A_LAYER = (
    ONE_ROW.replace("forward(self, ids)", "forward(self, ids, kv_caches=None)")
    .replace(_ONE, "")
    .replace(_LOOP, _EACH)
)
"""A model that reads a cache of each layer, though None is its default."""

LAST_ALONE = ONE_ROW.replace(_ONE, "").replace(
    "return self.head(self.norm(x))", "return self.head(self.norm(x)[:, -1])"
)
"""A model that gives the logits of the last position alone."""

LOOKS_AHEAD = LAST_ALONE.replace('float("-inf")).triu(1)', "0.0)")
"""The same without a mask."""

ONE_SEQUENCE = (
    ONE_ROW.replace(_ONE, "")
    .replace("ids.shape[1]", "len(ids)")
    .replace("x = self.tokens(ids)", "assert ids.ndim == 1\n        x = self.tokens(ids)")
)
"""A model of a single sequence, without an axis for a batch."""

SET_UP = (
    ONE_TOKEN.replace(
        """        kept = sizes.max_batch_size, sizes.max_seq_len, self.heads, self.size
        self.keys, self.values = torch.zeros(kept), torch.zeros(kept)
""",
        """        self.keys = self.values = None

    def make_room(self, rows, length):
        kept = rows, length, self.heads, self.size
        self.keys, self.values = torch.zeros(kept), torch.zeros(kept)
""",
    )
    .replace(
        '        assert tokens.shape[1] == 1, "one token at a time"\n',
        '        assert self.ready, "set the caches up first"\n',
    )
    .replace(
        "        self.norm = nn.LayerNorm(config.width)\n",
        """        self.norm = nn.LayerNorm(config.width)
        self.ready = False

    def setup_caches(self, max_batch_size, max_seq_length):
        self.ready = True
        for layer in self.layers:
            layer.attention.make_room(max_batch_size, max_seq_length)

""",
    )
    .replace("        self.head = nn.Linear(config.width, config.vocab_size, bias=False)\n", "")
    .replace(
        "        self.ready = False\n",
        "        self.head = nn.Linear(config.width, config.vocab_size, bias=False)\n"
        "        self.ready = False\n",
    )
)
"""A model whose caches a method of its own sets up."""

MIXED = ONE_ROW.replace(_ONE, "").replace(
    "        self.head = nn.Linear(n_embd, vocab_size, bias=False)\n",
    "        self.head = nn.Linear(n_embd, vocab_size, bias=False, dtype=torch.bfloat16)\n",
)
"""A model of which one part is always bfloat16."""

ON_CUDA = ONE_ROW.replace(_ONE, "").replace(
    "torch.arange(length)", 'torch.arange(length, device="cuda")'
)
"""A model that makes its positions on CUDA."""
