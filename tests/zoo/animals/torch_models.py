"""torch.nn's own layers, put together as a decoder."""

from functools import partial

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, CONTEXT = 61, 48, 6, 48


class Decoder(nn.Module):
    """nn.TransformerEncoder under a causal mask, with learned positions."""

    def __init__(self, *, batch_first=True, hint=False, boolean=False, redrawn=True, **options):
        super().__init__()
        self.batch_first, self.hint, self.boolean = batch_first, hint, boolean
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, batch_first=batch_first, **options
        )
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        for parameter in self.layers.parameters():
            if redrawn and parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, ids):
        axis = 1 if self.batch_first else 0
        length = ids.shape[axis]
        places = self.positions(torch.arange(length))
        x = self.embedding(ids) + (places if self.batch_first else places[:, None])
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        mask = mask < 0 if self.boolean else mask
        return self.head(self.norm(self.layers(x, mask=mask, is_causal=self.hint)))


class WithoutMemory(nn.Module):
    """nn.TransformerDecoderLayer attending to a memory of nothing but a learned vector."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.memory = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.layers = nn.TransformerDecoder(layer, 2)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        length = ids.shape[1]
        x = self.embedding(ids) + self.positions(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        memory = self.memory.expand(len(ids), -1, -1)
        return self.head(self.layers(x, memory, tgt_mask=mask, tgt_is_causal=True))


class Attends(nn.Module):
    """nn.MultiheadAttention in a block of one's own."""

    def __init__(self, *, weights=False, **options):
        super().__init__()
        self.weights = weights
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        length = ids.shape[1]
        x = self.embedding(ids) + self.positions(torch.arange(length))
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        y = self.norms[0](x)
        mixed, _ = self.attention(y, y, y, attn_mask=hidden, need_weights=self.weights)
        x = x + mixed
        x = x + self.feed(self.norms[1](x))
        return self.head(self.norms[2](x))


MODELS = {
    "TransformerEncoder, post-norm": Decoder,
    "TransformerEncoder, pre-norm": partial(Decoder, norm_first=True, activation="gelu"),
    "TransformerEncoder, causal hint": partial(Decoder, norm_first=True, hint=True),
    "TransformerEncoder, boolean mask": partial(Decoder, boolean=True),
    "TransformerEncoder, no bias": partial(Decoder, bias=False, norm_first=True),
    "TransformerEncoder, sequence first": partial(Decoder, batch_first=False),
    "TransformerEncoder, cloned layers": partial(Decoder, redrawn=False),
    "TransformerDecoder": WithoutMemory,
    "MultiheadAttention": Attends,
    "MultiheadAttention, weights": partial(Attends, weights=True),
    "MultiheadAttention, bias_kv": partial(Attends, add_bias_kv=True),
    "MultiheadAttention, zero_attn": partial(Attends, add_zero_attn=True),
}
DECLARED = {"TransformerEncoder, sequence first": {"layout": "sequence"}}
