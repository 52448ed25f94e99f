"""Faults of the norms and of biases."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from theodolite.properties.mutants.places import Built, Norm, Part, built, final_norm, norm
from theodolite.properties.mutants.registry import Patch, mutant, source
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
    "NORM-1 NORM-2 NORM-3",
    component="norm",
    source="131250208/TPlinker-joint-extraction#37",
)
def _(patch: Patch) -> None:
    """LayerNorm divides by the square of (variance + eps) where the root was meant."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        centred = _centred(x)
        return centred / (_mean_square(centred) + self.eps) ** 2 * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("variance-unbiased", "NORM-1 NORM-3", component="norm")
def _(patch: Patch) -> None:
    """LayerNorm's variance is divided by d - 1 instead of d."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        variance = _mean_square(_centred(x)) * (x.shape[-1] / max(1, x.shape[-1] - 1))
        return _centred(x) * torch.rsqrt(variance + self.eps) * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("rms-norm-centres", "NORM-2 NORM-5", component="norm")
def _(patch: Patch) -> None:
    """RMSNorm takes the mean away first, as LayerNorm does."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        centred = _centred(x)
        return centred * torch.rsqrt(_mean_square(centred) + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("rms-norm-centres-halfway", "NORM-2", component="norm")
def _(patch: Patch) -> None:
    """RMSNorm takes a tenth of the mean away."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        moved = x - 0.1 * x.mean(dim=-1, keepdim=True)
        return moved * torch.rsqrt(_mean_square(moved) + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("layer-norm-does-not-centre", "NORM-1 NORM-2 NORM-5", component="norm")
def _(patch: Patch) -> None:
    """LayerNorm keeps the mean, as RMSNorm does."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        return x * torch.rsqrt(_mean_square(x) + self.eps) * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("gain-before-the-division", "NORM-3", component="norm")
def _(patch: Patch) -> None:
    """The gain multiplies the input of the norm, which divides its scale away again."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        scaled = x * self.weight
        return scaled * torch.rsqrt(_mean_square(scaled) + self.eps)

    patch.method(RMSNorm, "forward", forward)


@mutant("rms-norm-with-a-shift", "NORM-3", component="norm")
def _(patch: Patch) -> None:
    """RMSNorm also learns a shift for each channel."""

    def add(norm: RMSNorm) -> None:
        norm.bias = nn.Parameter(torch.zeros_like(norm.weight))

    patch.after_init(RMSNorm, add)


@mutant("norm-over-the-batch", "NORM-4", component="norm")
def _(patch: Patch) -> None:
    """Mean and variance are taken over the rows of the batch too."""

    def forward(self: LayerNorm, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=(0, -1), keepdim=True)
        variance = centred.square().mean(dim=(0, -1), keepdim=True)
        return centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias

    patch.method(LayerNorm, "forward", forward)


@mutant("norm-of-a-thousandth-of-its-neighbour", "NORM-4", component="norm")
def _(patch: Patch) -> None:
    """A thousandth of the mean over time enters before the norm: a leak too small to notice."""
    original = RMSNorm.forward

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        return original(self, x + 1e-3 * x.mean(dim=-2, keepdim=True))

    patch.method(RMSNorm, "forward", forward)


@mutant("mean-square-from-an-outer-product", "NORM-5", component="norm")
def _(patch: Patch) -> None:
    """The squares are read off the diagonal of x xᵀ: the same numbers for d² operations."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        outer = x[..., :, None] @ x[..., None, :]
        mean_square = outer.diagonal(dim1=-2, dim2=-1).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)


@mutant("attention-with-biases", "NORM-6", component="parameters")
def _(patch: Patch) -> None:
    """Attention's linear layers carry biases that the configuration does not ask for."""

    def build(config: GPTConfig) -> MultiHeadAttention:
        return MultiHeadAttention(config.width, config.heads, bias=True)

    patch.replace(block.build_attention, build)


@mutant(
    "norm-through-the-deviation-of-the-centred",
    "NORM-1 NORM-2 NORM-3 NORM-4",
    component="norm",
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


@mutant("norm-of-half-the-channels", "NORM-1 NORM-4", component="norm")
def _(patch: Patch) -> None:
    """The mean square is taken over the first half of the channels alone."""

    def forward(self: RMSNorm, x: Tensor) -> Tensor:
        half = x[..., : (x.shape[-1] + 1) // 2]
        return x * torch.rsqrt(_mean_square(half) + self.eps) * self.weight

    patch.method(RMSNorm, "forward", forward)


# -- in every host that has the seam ---------------------------------------------------------------


def _finished(unit: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scaled = unit.to(weight.dtype) * weight
    return scaled if bias is None else scaled + bias


def _over(x: Tensor, axes: tuple[int, ...], eps: float, *, centred: bool) -> Tensor:
    if centred:
        x = x - x.mean(axes, keepdim=True)
    return x * torch.rsqrt(x.square().mean(axes, keepdim=True) + eps)


def _by_deviation(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + eps)


@norm(
    "norm-multiplies-by-the-rms",
    "NORM-1 NORM-2 NORM-3",
    "norm.formula",
    needs="rmsnorm",
    source="mosaicml/llm-foundry#371",
    often="reference",
)
def _(own: Norm) -> Tensor:
    """The vector is multiplied by its RMS where it should be divided."""
    return _finished(
        own.x * (own.x.square().mean(-1, keepdim=True) + own.eps).sqrt(), own.weight, own.bias
    )


@norm(
    "rms-norm-by-the-deviation",
    "NORM-1 NORM-3",
    "norm.formula",
    needs="rmsnorm",
    source="huggingface/pytorch-image-models#2380",
    often="reference",
)
def _(own: Norm) -> Tensor:
    """The vector is divided by its standard deviation, the mean taken out."""
    return _finished(_by_deviation(own.x, own.eps), own.weight, own.bias)


@norm(
    "epsilon-outside-the-root",
    "NORM-1",
    "norm.epsilon",
    needs="rmsnorm",
    source="allenai/OLMo#281",
    often="reference",
)
def _(own: Norm) -> Tensor:
    """Epsilon is added to the RMS, not to the mean square."""
    return _finished(
        own.x / (own.x.square().mean(-1, keepdim=True).sqrt() + own.eps), own.weight, own.bias
    )


@norm("epsilon-left-out", "NORM-1", "norm.epsilon")
def _(own: Norm) -> Tensor:
    """There is no epsilon: a vector of zeros gives NaN."""
    return _finished(_over(own.x, (-1,), 0.0, centred=own.bias is not None), own.weight, own.bias)


@norm(
    "mean-square-squared",
    "NORM-1 NORM-2 NORM-3",
    "norm.formula",
    source="131250208/TPlinker-joint-extraction#37",
)
def _(own: Norm) -> Tensor:
    """The mean square is squared where its root should be taken."""
    centred = own.x if own.bias is None else own.x - own.x.mean(-1, keepdim=True)
    return _finished(
        centred / (centred.square().mean(-1, keepdim=True) + own.eps) ** 2, own.weight, own.bias
    )


@norm("sum-of-squares-for-their-mean", "NORM-3", "norm.gain", needs="rmsnorm", often="reference")
def _(own: Norm) -> Tensor:
    """RMSNorm divides by the vector's length, √d times its RMS."""
    return _finished(
        own.x * torch.rsqrt(own.x.square().sum(-1, keepdim=True) + own.eps), own.weight, own.bias
    )


@norm("mean-left-in", "NORM-1 NORM-2", "norm.formula", needs="layernorm")
def _(own: Norm) -> Tensor:
    """The mean is left in, and the standard deviation divides."""
    return _finished(_by_deviation(own.x, own.eps), own.weight, own.bias)


@norm(
    "norm-over-time-in-the-model",
    "ATT-4 AUD-2 NORM-1 NORM-4",
    "norm.per_position",
    often="reference gpt2",
)
def _(own: Norm) -> Tensor:
    """The mean square is taken over the positions too."""
    if own.x.dim() < 3:
        return own()
    return _finished(
        _over(own.x, (-2, -1), own.eps, centred=own.bias is not None), own.weight, own.bias
    )


@norm("norm-over-the-batch-in-the-model", "AUD-3", "batch.independence", also="batch")
def _(own: Norm) -> Tensor:
    """The mean square is taken over the rows of the batch too."""
    if own.x.dim() < 3:
        return own()
    return _finished(
        _over(own.x, (0, -1), own.eps, centred=own.bias is not None), own.weight, own.bias
    )


@norm("gain-one-for-all-channels", "NORM-3", "norm.gain", often="reference")
def _(own: Norm) -> Tensor:
    """Every channel gets the mean of the gains."""
    unit = _over(own.x, (-1,), own.eps, centred=own.bias is not None)
    return _finished(unit, own.weight.mean().expand_as(own.weight), own.bias)


@norm("gain-never-applied", "NORM-3 AUD-12", "norm.gain")
def _(own: Norm) -> Tensor:
    """The vector is normalised and its gain forgotten."""
    return _finished(
        _over(own.x, (-1,), own.eps, centred=own.bias is not None),
        torch.ones_like(own.weight),
        own.bias,
    )


@norm("shift-never-applied", "AUD-12", "modules.executed", needs="layernorm")
def _(own: Norm) -> Tensor:
    """LayerNorm's bias is a parameter that nothing reads."""
    return _finished(_over(own.x, (-1,), own.eps, centred=True), own.weight, None)


@norm("norm-in-half-precision", "AUD-8", "batch.independence", component="dtype", also="batch")
def _(own: Norm) -> Tensor:
    """Norms are computed in bfloat16 whatever the stream's precision."""
    unit = _over(own.x.bfloat16(), (-1,), own.eps, centred=own.bias is not None)
    return _finished(unit.to(own.x.dtype), own.weight, own.bias)


@final_norm(
    "no-final-norm",
    "RES-5 GPT-6",
    "assembly.final_norm",
    source="vllm-project/speculators#313",
    often="reference",
)
def _(own: Part) -> Tensor:
    """The head reads the residual stream as it is."""
    return own.x


@built("epsilon-of-one-layer", "NORM-1", "norm.alike", component="norm")
def _(own: Built) -> None:
    """The norms of one layer have a hundred times the epsilon of all others."""
    for module in own.parts.layers()[1].modules():
        for name in ("eps", "variance_epsilon"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 100 * getattr(module, name))


# -- in the text of hosts ---------------------------------------------------------------


source("one-layer-with-another-norm", "NORM-1", "norm.alike", component="norm",
    says="One layer has a LayerNorm where all others have an RMSNorm.")  # fmt: skip
