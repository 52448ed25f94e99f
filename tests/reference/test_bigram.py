"""A bigram sees one token."""

import torch

from theodolite.reference import Bigram


def test_a_bigrams_logits_are_a_function_of_the_current_token():
    model = Bigram(7)
    logits = model(torch.tensor([[3, 1, 3], [5, 6, 3]]))
    assert torch.equal(logits[0, 0], logits[0, 2])
    assert torch.equal(logits[0, 2], logits[1, 2])
