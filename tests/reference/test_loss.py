"""The loss shifts once."""

import pytest
import torch

from theodolite import reference


def test_the_loss_is_the_mean_surprise_at_the_next_token():
    torch.manual_seed(0)
    logits, ids = torch.randn(2, 4, 5), torch.randint(5, (2, 4))
    surprise = [
        -logits[row, t].log_softmax(-1)[ids[row, t + 1]] for row in range(2) for t in range(3)
    ]
    assert torch.allclose(reference.next_token_loss(logits, ids), torch.stack(surprise).mean())


def test_targets_shifted_beforehand_are_not_shifted_again():
    torch.manual_seed(0)
    logits, ids = torch.randn(2, 5, 7), torch.randint(7, (2, 6))
    whole = torch.cat((logits, torch.randn(2, 1, 7)), dim=1)
    assert torch.equal(
        reference.token_loss(logits, ids[:, 1:]), reference.next_token_loss(whole, ids)
    )


def test_ignored_targets_leave_the_mean():
    torch.manual_seed(0)
    logits, targets = torch.randn(1, 4, 5), torch.tensor([[1, -100, 2, -100]])
    expected = reference.token_loss(logits[:, ::2], targets[:, ::2])
    assert torch.allclose(reference.token_loss(logits, targets), expected)


def test_an_ignored_token_of_one_s_own_leaves_the_mean_too():
    torch.manual_seed(0)
    logits, ids = torch.randn(1, 4, 5), torch.tensor([[3, 1, 4, 2]])
    expected = reference.token_loss(logits[:, [0, 2]], torch.tensor([[1, 2]]))
    assert torch.allclose(reference.next_token_loss(logits, ids, ignore_index=4), expected)
    assert torch.allclose(reference.token_loss(logits[:, :-1], ids[:, 1:], 4), expected)


def test_what_has_no_next_token_is_refused():
    with pytest.raises(ValueError, match="give at least 2 tokens"):
        reference.next_token_loss(torch.zeros(2, 1, 5), torch.zeros(2, 1, dtype=torch.long))
    with pytest.raises(ValueError, match="give one target for each position"):
        reference.token_loss(torch.zeros(2, 3, 5), torch.zeros(2, 4, dtype=torch.long))
