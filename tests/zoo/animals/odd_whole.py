"""Correct ways to call, initialise, tie, freeze and quantise that a naive checker flags."""

import copy
import math

import torch
import torch.utils.checkpoint
from animals.decoder import VOCABULARY, WIDTH, Attention, Block, Decoder, FeedForward, decoder
from animals.odd_blocks import Gemma
from torch import nn


class Tied(Decoder):
    def __init__(self):
        super().__init__()
        self.head.weight = self.embedding.weight


class TiedAndScaled(Tied):
    """Gemma: √d on the way in, one matrix, norms of (1 + w)."""

    def embed(self, ids):
        return super().embed(ids) * math.sqrt(WIDTH)


class TiedByClosure(Decoder):
    """The head is a function that closes over the model."""

    def __init__(self):
        super().__init__()
        del self.head
        self.head = lambda x: x @ self.embedding.weight.t()


class HeadFromZero(Decoder):
    """Output projections and head begin at zero: no gradient reaches the rest at first."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.head.weight)
        for block in self.blocks:
            nn.init.zeros_(block.attend.out.weight)
            nn.init.zeros_(block.feed.down.weight)


class CopiedLayers(Decoder):
    """Every layer is a copy of the first, drawn anew afterwards."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(copy.deepcopy(self.blocks[0]) for _ in range(3))
        self.apply(self.draw)


class FrozenEmbedding(Decoder):
    def __init__(self):
        super().__init__()
        self.embedding.weight.requires_grad_(False)


class StoppedGradient(Decoder):
    def embed(self, ids):
        x = super().embed(ids)
        return 0.1 * x + (0.9 * x).detach()


class CappedLogits(Decoder):
    def forward(self, ids):
        return 30.0 * torch.tanh(super().forward(ids) / 30.0)


class CentredLogits(Decoder):
    """The mean is taken off, which softmax ignores (folded unembedding)."""

    def forward(self, ids):
        logits = super().forward(ids)
        return logits - logits.mean(dim=-1, keepdim=True)


class LogProbabilities(Decoder):
    def forward(self, ids):
        return super().forward(ids).log_softmax(dim=-1)


class PaddedVocabulary(Decoder):
    """A head of 64 columns for 61 tokens."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, 64, bias=False)
        self.draw(self.head)


class NarrowEmbedding(Decoder):
    """ALBERT: a narrow table and a projection."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Sequential(
            nn.Embedding(VOCABULARY, 12), nn.Linear(12, WIDTH, bias=False)
        )
        self.embedding.apply(self.draw)


class SequenceFirst(Decoder):
    def forward(self, ids):
        return super().forward(ids.t()).transpose(0, 1)


class LogitsAndLoss(Decoder):
    """nanoGPT: the last position alone unless targets are given."""

    def forward(self, ids, targets=None):
        if targets is None:
            return super().forward(ids)[:, [-1]], None
        logits = super().forward(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


class Mapping(Decoder):
    def forward(self, ids):
        return {"hidden": None, "logits": super().forward(ids)}


class Padded(Attention):
    """A padding mask; queries that see nothing give zeros, or the mean of everything."""

    fill = -math.inf

    def visible(self, length):
        seen = super().visible(length)
        return seen if self.real is None else seen & self.real[:, None, None, :]

    def weigh(self, scores):
        weights = scores.masked_fill(~self.visible(scores.shape[-1]), self.fill).softmax(dim=-1)
        return weights.nan_to_num(0.0)


class PaddedByFinite(Padded):
    fill = -1e9


class WithPadding(Decoder):
    def forward(self, ids, attention_mask=None):
        for block in self.blocks:
            block.attend.real = None if attention_mask is None else attention_mask.bool()
        return super().forward(ids)


class HalfPrecision(Decoder):
    def __init__(self):
        super().__init__()
        self.to(torch.bfloat16)


class DoublePrecision(Decoder):
    def __init__(self):
        super().__init__()
        self.double()


class Checkpointed(Decoder):
    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return self.head(self.last(x))


class TorchDefaults(Decoder):
    """No initialisation of one's own: torch's."""

    def draw(self, module):
        pass

    def __init__(self):
        super().__init__()
        nn.init.normal_(self.embedding.weight, std=0.02)


class PackedProjection(Attention):
    """One matrix for v, k and q, in this order, head by head."""

    def __init__(self, layer=0):
        super().__init__(layer)
        self.packed = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        del self.query, self.key, self.value

    def project(self, x):
        packed = self.packed(x).view(*x.shape[:2], -1, 3, self.head)
        value, key, query = packed.permute(3, 0, 2, 1, 4)
        return query, key, value


class Biased(Attention):
    bias = True


class NoDropoutAtAll(Attention):
    dropout = 0.0


WHOLES = (
    Tied,
    TiedByClosure,
    HeadFromZero,
    CopiedLayers,
    FrozenEmbedding,
    StoppedGradient,
    CappedLogits,
    CentredLogits,
    LogProbabilities,
    PaddedVocabulary,
    NarrowEmbedding,
    SequenceFirst,
    LogitsAndLoss,
    Mapping,
    HalfPrecision,
    DoublePrecision,
    Checkpointed,
    TorchDefaults,
)
MODELS = {
    **{whole.__name__: decoder(whole=whole) for whole in WHOLES},
    "TiedAndScaled": decoder(whole=TiedAndScaled, norm=Gemma),
    "WithPadding": decoder(Padded, whole=WithPadding),
    "WithPaddingByFinite": decoder(PaddedByFinite, whole=WithPadding),
    "PackedProjection": decoder(PackedProjection),
    "Biased": decoder(Biased),
    "NoDropoutAtAll": decoder(NoDropoutAtAll, block=Block, feed_forward=FeedForward),
}
DECLARED = {"SequenceFirst": {"layout": "sequence"}}
