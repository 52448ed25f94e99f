"""Correct ways to assemble a block that a naive checker flags: norms, skips, gates, experts."""

import math

import torch
from animals.decoder import LAYERS, WIDTH, Attention, Block, Decoder, FeedForward, RMSNorm, decoder
from torch import nn
from torch.nn import functional


class PostNorm(Block):
    norm = nn.LayerNorm

    def forward(self, x):
        x = self.first(x + self.attend(x))
        return self.second(x + self.feed(x))


class PostNormOfDeepNet(Block):
    def forward(self, x):
        x = self.first(1.7 * x + self.attend(x))
        return self.second(1.7 * x + self.feed(x))


class Sandwich(Block):
    def __init__(self, layer=0):
        super().__init__(layer)
        self.third, self.fourth = self.norm(WIDTH), self.norm(WIDTH)

    def forward(self, x):
        x = x + self.third(self.attend(self.first(x)))
        return x + self.fourth(self.feed(self.second(x)))


class NormOfWhatIsAdded(Block):
    """OLMo 2: norms stand behind the branches alone."""

    def forward(self, x):
        x = x + self.first(self.attend(x))
        return x + self.second(self.feed(x))


class Parallel(Block):
    def forward(self, x):
        return x + self.attend(self.first(x)) + self.feed(self.second(x))


class ParallelWithOneNorm(Block):
    def __init__(self, layer=0):
        super().__init__(layer)
        del self.second

    def forward(self, x):
        y = self.first(x)
        return x + self.attend(y) + self.feed(y)


class Multipliers(Block):
    def forward(self, x):
        x = x + 0.22 * self.attend(self.first(x))
        return x + 0.22 * self.feed(self.second(x))


class LayerScale(Block):
    def __init__(self, layer=0):
        super().__init__(layer)
        self.one, self.two = (nn.Parameter(torch.full((WIDTH,), 1e-2)) for _ in range(2))

    def forward(self, x):
        x = x + self.one * self.attend(self.first(x))
        return x + self.two * self.feed(self.second(x))


class ReZero(Block):
    """No norm in the block; every branch begins at nothing."""

    def __init__(self, layer=0):
        super().__init__(layer)
        del self.first, self.second
        self.share = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        x = x + self.share * self.attend(x)
        return x + self.share * self.feed(x)


class StochasticDepth(Block):
    def keep(self, x):
        if not self.training:
            return x
        return x * (torch.rand(len(x), 1, 1) < 0.8) / 0.8

    def forward(self, x):
        x = x + self.keep(self.attend(self.first(x)))
        return x + self.keep(self.feed(self.second(x)))


class AttentionAlone(Block):
    def __init__(self, layer=0):
        super().__init__(layer)
        del self.second, self.feed

    def forward(self, x):
        return x + self.attend(self.first(x))


class ShiftedTokens(Block):
    """Half of the channels come from the token before (RWKV, token shift)."""

    def forward(self, x):
        y = self.first(x)
        before = functional.pad(y, (0, 0, 1, 0))[:, :-1]
        x = x + self.attend(torch.cat([before[..., ::2], y[..., 1::2]], dim=-1))
        return x + self.feed(self.second(x))


class Convolution(Attention):
    """Queries, keys and values pass a short causal convolution first."""

    def __init__(self, layer=0):
        super().__init__(layer)
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, groups=WIDTH)

    def forward(self, x):
        mixed = self.convolution(functional.pad(x.transpose(1, 2), (2, 0)))
        return super().forward(x + mixed.transpose(1, 2))


class Gemma(nn.Module):
    """(1 + w), w from 0."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)


class Plain(nn.Module):
    """No gain."""

    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return functional.rms_norm(x, (self.width,), eps=1e-5)


class LengthNorm(nn.Module):
    """x/|x| times √d: RMSNorm by another name (ScaleNorm with a learned length)."""

    def __init__(self, width):
        super().__init__()
        self.length = nn.Parameter(torch.tensor(math.sqrt(width)))

    def forward(self, x):
        return self.length * functional.normalize(x, dim=-1)


class Tanh(nn.Module):
    """Dynamic tanh in the place of a norm (DyT)."""

    def __init__(self, width):
        super().__init__()
        self.sharpness = nn.Parameter(torch.ones(()))
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.weight * torch.tanh(self.sharpness * x) + self.bias


class Ungated(nn.Module):
    def __init__(self, layer=0):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def act(self, x):
        return functional.gelu(x)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class SquaredRelu(Ungated):
    def act(self, x):
        return functional.relu(x).square()


class NormInside(Ungated):
    """NormFormer."""

    def __init__(self, layer=0):
        super().__init__(layer)
        self.norm = nn.LayerNorm(4 * WIDTH)

    def act(self, x):
        return self.norm(functional.gelu(x))


class Packed(nn.Module):
    """Gate and up in one matrix, up first."""

    def __init__(self, layer=0):
        super().__init__()
        self.both = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        up, gate = self.both(x).chunk(2, dim=-1)
        return self.down(up * functional.silu(gate))


class Experts(nn.Module):
    experts, active = 4, 2

    def __init__(self, layer=0):
        super().__init__()
        self.router = nn.Linear(WIDTH, self.experts, bias=False)
        self.each = nn.ModuleList(FeedForward(layer, WIDTH) for _ in range(self.experts))

    def shares(self, logits):
        best = logits.topk(self.active, dim=-1)
        return torch.zeros_like(logits).scatter(-1, best.indices, best.values.softmax(dim=-1))

    def forward(self, x):
        shares = self.shares(self.router(x))
        return sum(shares[..., [i]] * expert(x) for i, expert in enumerate(self.each))


class SwitchExperts(Experts):
    """One expert, weighed by its probability among all."""

    active = 1

    def shares(self, logits):
        shares = logits.softmax(dim=-1)
        return shares * (shares == shares.amax(-1, keepdim=True))


class SigmoidExpertsAndShared(Experts):
    def __init__(self, layer=0):
        super().__init__(layer)
        self.shared = FeedForward(layer, WIDTH)
        self.register_buffer("correction", 0.1 * torch.arange(self.experts).float())

    def shares(self, logits):
        shares = torch.sigmoid(logits)
        best = (shares + self.correction).topk(self.active, dim=-1).indices
        kept = torch.zeros_like(shares).scatter(-1, best, shares.gather(-1, best))
        return 2.5 * kept / kept.sum(-1, keepdim=True)

    def forward(self, x):
        return self.shared(x) + super().forward(x)


class SoftExperts(Experts):
    def shares(self, logits):
        return logits.softmax(dim=-1)


class ValuesOfTheFirstLayer(Decoder):
    """Every later layer adds the first layer's values to its own (value residual)."""

    def forward(self, ids):
        x, first = self.embed(ids), None
        for block in self.blocks:
            y = block.first(x)
            query, key, value = block.attend.project(y)
            first = value if first is None else first
            query, key = block.attend.place(query, key)
            mixed = block.attend.mix(y, query, key, 0.5 * (value + first))
            x = x + block.attend.out(mixed)
            x = x + block.feed(block.second(x))
        return self.head(self.last(x))


class Streams(Decoder):
    """Two residual streams that exchange (hyper-connections, static)."""

    def __init__(self):
        super().__init__()
        self.exchange = nn.Parameter(torch.eye(2).repeat(LAYERS, 1, 1) + 0.1)

    def forward(self, ids):
        streams = torch.stack([self.embed(ids)] * 2)
        for block, exchange in zip(self.blocks, self.exchange, strict=True):
            x = streams.mean(0)
            streams = torch.einsum("nm,mbtc->nbtc", exchange, streams) + (block(x) - x)
        return self.head(self.last(streams.sum(0)))


class Skips(Decoder):
    """The second half adds what the first half had (U-Net)."""

    layers = 4

    def forward(self, ids):
        x, kept = self.embed(ids), []
        for i, block in enumerate(self.blocks):
            if i < self.layers // 2:
                kept.append(x)
            else:
                x = x + 0.5 * kept.pop()
            x = block(x)
        return self.head(self.last(x))


class Repeated(Decoder):
    """One block, three times (Universal Transformer)."""

    layers = 1

    def forward(self, ids):
        x = self.embed(ids)
        for _ in range(3):
            x = self.blocks[0](x)
        return self.head(self.last(x))


BLOCKS = (
    Sandwich,
    NormOfWhatIsAdded,
    Parallel,
    ParallelWithOneNorm,
    Multipliers,
    LayerScale,
    ReZero,
    StochasticDepth,
    AttentionAlone,
    ShiftedTokens,
)
NORMS = (Gemma, Plain, LengthNorm, Tanh)
FEED_FORWARDS = (
    Ungated,
    SquaredRelu,
    NormInside,
    Packed,
    Experts,
    SwitchExperts,
    SigmoidExpertsAndShared,
    SoftExperts,
)


class WithoutLastNorm(Decoder):
    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def __init__(self):
        super().__init__()
        del self.last


MODELS = {
    "PostNorm": decoder(block=PostNorm, whole=WithoutLastNorm),
    "PostNormOfDeepNet": decoder(block=PostNormOfDeepNet, whole=WithoutLastNorm),
    **{block.__name__: decoder(block=block) for block in BLOCKS},
    "Convolution": decoder(Convolution),
    **{norm.__name__: decoder(norm=norm) for norm in NORMS},
    **{feed.__name__: decoder(feed_forward=feed) for feed in FEED_FORWARDS},
    "RMSNorm": decoder(norm=RMSNorm),
    "ValuesOfTheFirstLayer": decoder(whole=ValuesOfTheFirstLayer),
    "Streams": decoder(whole=Streams),
    "Skips": decoder(whole=Skips),
    "Repeated": decoder(whole=Repeated),
}
DECLARED = {}
