import pytest
import torch
from torch import nn

HEADS, WIDTH, VOCABULARY = 3, 4, 11


class OneLayer(nn.Module):
    """Embedding, one attention written as the test wants it, and an output projection."""

    def __init__(self, attend):
        super().__init__()
        size = HEADS * WIDTH
        self.attend = attend
        self.embedding = nn.Embedding(VOCABULARY, size)
        self.query, self.key, self.value, self.output = (nn.Linear(size, size) for _ in range(4))

    def projections(self, ids):
        x = self.embedding(ids)
        return self.query(x), self.key(x), self.value(x)

    def forward(self, ids):
        return self.output(self.attend(*self.projections(ids)))


@pytest.fixture
def one_layer():
    """Make a `OneLayer` around a function of projected q, k and v, each (B, T, H·d)."""

    def make(attend):
        torch.manual_seed(0)
        return OneLayer(attend)

    return make


@pytest.fixture
def ids():
    return torch.tensor([[7, 3, 1, 8, 6, 0, 9], [6, 7, 10, 5, 5, 2, 0]])
