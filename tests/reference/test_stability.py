"""z-loss and soft-capping."""

import torch
import torch.nn.functional as F

from theodolite import reference


def test_z_loss_is_zero_only_where_the_normaliser_is_one():
    logits = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert reference.z_loss(logits.log_softmax(-1)) <= 1e-30
    shifted = logits.log_softmax(-1) + 3
    assert torch.allclose(reference.z_loss(shifted, 0.5), torch.tensor(4.5, dtype=torch.float64))


def test_z_loss_sees_a_shift_that_cross_entropy_does_not():
    logits = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(4)
    unmoved = F.cross_entropy(logits + 7, targets) - F.cross_entropy(logits, targets)
    assert unmoved.abs() <= 1e-14  # a few eps of the 7 that cancels
    assert reference.z_loss(logits + 7) > reference.z_loss(logits) * 2


def test_soft_cap_bounds_and_keeps_order_and_small_values():
    x = torch.linspace(-200, 200, 801, dtype=torch.float64)
    capped = reference.soft_cap(x, 30.0)
    assert capped.abs().max() <= 30
    assert (capped.diff() >= 0).all()
    small = torch.tensor([1e-3], dtype=torch.float64)
    # tanh z = z - z³/3 + …, so the cap takes away x³/(3·cap²)
    assert (small - reference.soft_cap(small, 30.0)).item() <= 1e-9 / (3 * 900) * 1.01
