"""Faults of the norms and of biases."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import block
from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.config import GPTConfig
from theodolite.reference.norm import LayerNorm, RMSNorm


def _mean_square(x: Tensor) -> Tensor:
    return x.square().mean(dim=-1, keepdim=True)


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True)


@mutant(
    "variance-squared",
    component="norm",
    breaks=("NORM-1", "NORM-2", "NORM-3"),
    source="131250208/TPlinker-joint-extraction#37",
)
def _(patch: Patch) -> None:
    """LayerNorm divides by the square of (variance + eps) where the root was meant."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        centred = _centred(x)
        return centred / (_mean_square(centred) + self.eps) ** 2 * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("variance-unbiased", component="norm", breaks=("NORM-1", "NORM-3"))
def _(patch: Patch) -> None:
    """LayerNorm's variance is divided by d - 1 instead of d."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        variance = _mean_square(_centred(x)) * (x.shape[-1] / max(1, x.shape[-1] - 1))
        return _centred(x) * torch.rsqrt(variance + self.eps) * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("rms-norm-centres", component="norm", breaks=("NORM-2", "NORM-5"))
def _(patch: Patch) -> None:
    """RMSNorm takes the mean away first, as LayerNorm does."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        centred = _centred(x)
        return centred * torch.rsqrt(_mean_square(centred) + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("rms-norm-centres-halfway", component="norm", breaks=("NORM-2",))
def _(patch: Patch) -> None:
    """RMSNorm takes a tenth of the mean away."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        moved = x - 0.1 * x.mean(dim=-1, keepdim=True)
        return moved * torch.rsqrt(_mean_square(moved) + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("layer-norm-does-not-centre", component="norm", breaks=("NORM-1", "NORM-2", "NORM-5"))
def _(patch: Patch) -> None:
    """LayerNorm keeps the mean, as RMSNorm does."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        return x * torch.rsqrt(_mean_square(x) + self.eps) * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("gain-before-the-division", component="norm", breaks=("NORM-3",))
def _(patch: Patch) -> None:
    """The gain multiplies the input of the norm, which divides its scale away again."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        scaled = x * self.weight
        return scaled * torch.rsqrt(_mean_square(scaled) + self.eps)

    patch.method(RMSNorm, "forward", forward)


@mutant("rms-norm-with-a-shift", component="norm", breaks=("NORM-3",))
def _(patch: Patch) -> None:
    """RMSNorm also learns a shift for each channel."""

    def add(norm: RMSNorm) -> None:
        norm.bias = nn.Parameter(torch.zeros_like(norm.weight))

    patch.after_init(RMSNorm, add)


@mutant("norm-over-time", component="norm", breaks=("NORM-1", "NORM-4"))
def _(patch: Patch) -> None:
    """The mean square is taken over the positions too, so a position feels later ones."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        over_time = x.square().mean(dim=(-2, -1), keepdim=True)
        return x * torch.rsqrt(over_time + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("norm-over-the-batch", component="norm", breaks=("NORM-4",))
def _(patch: Patch) -> None:
    """Mean and variance are taken over the rows of the batch too."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=(0, -1), keepdim=True)
        variance = centred.square().mean(dim=(0, -1), keepdim=True)
        return centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("norm-of-a-thousandth-of-its-neighbour", component="norm", breaks=("NORM-4",))
def _(patch: Patch) -> None:
    """A thousandth of the mean over time enters before the norm: a leak too small to notice."""
    original = RMSNorm.forward

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        return original(self, x + 1e-3 * x.mean(dim=-2, keepdim=True))

    patch.method(RMSNorm, "forward", forward)


@mutant("mean-square-from-an-outer-product", component="norm", breaks=("NORM-5",))
def _(patch: Patch) -> None:
    """The squares are read off the diagonal of x xᵀ: the same numbers for d² operations."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        outer = x[..., :, None] @ x[..., None, :]
        mean_square = outer.diagonal(dim1=-2, dim2=-1).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("attention-with-biases", component="parameters", breaks=("NORM-6",))
def _(patch: Patch) -> None:
    """Attention's linear layers carry biases that the configuration does not ask for."""

    def build(config: GPTConfig) -> MultiHeadAttention:
        return MultiHeadAttention(config.width, config.heads, bias=True)

    patch.replace(block.build_attention, build)


@mutant(
    "norm-through-the-deviation-of-the-centred",
    component="norm",
    breaks=("NORM-1", "NORM-2", "NORM-3", "NORM-4"),
    equivalent="mean(x²) - mean(x)² is the variance, so this LayerNorm is the same in other words.",
)
def _(patch: Patch) -> None:
    """LayerNorm's variance is the mean square less the square of the mean."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        wide = x.double()
        mean = wide.mean(dim=-1, keepdim=True)
        variance = (_mean_square(wide) - mean.square()).clamp(min=0)
        unit = (wide - mean) * torch.rsqrt(variance + self.eps)
        return unit.to(x.dtype) * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("norm-of-half-the-channels", component="norm", breaks=("NORM-1", "NORM-4"))
def _(patch: Patch) -> None:
    """The mean square is taken over the first half of the channels alone."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        half = x[..., : (x.shape[-1] + 1) // 2]
        return x * torch.rsqrt(_mean_square(half) + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)
