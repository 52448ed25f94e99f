"""Faults of norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import portable


def _finished(unit: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scaled = unit.to(weight.dtype) * weight
    return scaled if bias is None else scaled + bias


def _over(x: Tensor, axes: tuple[int, ...], eps: float, *, centred: bool) -> Tensor:
    if centred:
        x = x - x.mean(axes, keepdim=True)
    return x * torch.rsqrt(x.square().mean(axes, keepdim=True) + eps)


def _by_deviation(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + eps)


@portable(
    "norm-multiplies-by-the-rms",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-2", "NORM-3"),
    source="mosaicml/llm-foundry#371",
    needs=("rmsnorm",),
)
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The vector is multiplied by its RMS where it should be divided."""
    del original
    return _finished(x * (x.square().mean(-1, keepdim=True) + eps).sqrt(), weight, bias)


@portable(
    "rms-norm-by-the-deviation",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-3"),
    source="huggingface/pytorch-image-models#2380",
    needs=("rmsnorm",),
)
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The vector is divided by its standard deviation, the mean taken out."""
    del original
    return _finished(_by_deviation(x, eps), weight, bias)


@portable(
    "epsilon-outside-the-root",
    seam="norm",
    component="norm",
    breaks=("NORM-1",),
    source="allenai/OLMo#281",
    needs=("rmsnorm",),
)
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """Epsilon is added to the RMS, not to the mean square."""
    del original
    return _finished(x / (x.square().mean(-1, keepdim=True).sqrt() + eps), weight, bias)


@portable("epsilon-left-out", seam="norm", component="norm", breaks=("NORM-1",))
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """There is no epsilon: a vector of zeros gives NaN."""
    del original, eps
    return _finished(_over(x, (-1,), 0.0, centred=bias is not None), weight, bias)


@portable(
    "mean-square-squared",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-2", "NORM-3"),
    source="131250208/TPlinker-joint-extraction#37",
)
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The mean square is squared where its root should be taken."""
    del original
    centred = x if bias is None else x - x.mean(-1, keepdim=True)
    return _finished(centred / (centred.square().mean(-1, keepdim=True) + eps) ** 2, weight, bias)


@portable(
    "sum-of-squares-for-their-mean",
    seam="norm",
    component="norm",
    breaks=("NORM-3",),
    needs=("rmsnorm",),
)
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """RMSNorm divides by the vector's length, √d times its RMS."""
    del original
    return _finished(x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps), weight, bias)


@portable(
    "mean-left-in",
    seam="norm",
    component="norm",
    breaks=("NORM-1", "NORM-2"),
    needs=("layernorm",),
)
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The mean is left in, and the standard deviation divides."""
    del original
    return _finished(_by_deviation(x, eps), weight, bias)


@portable("norm-over-time-in-the-model", seam="norm", component="norm", breaks=("ATT-4", "AUD-2"))
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The mean square is taken over the positions too."""
    if x.dim() < 3:
        return original(x, weight, bias, eps)
    return _finished(_over(x, (-2, -1), eps, centred=bias is not None), weight, bias)


@portable("norm-over-the-batch-in-the-model", seam="norm", component="norm", breaks=("AUD-3",))
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The mean square is taken over the rows of the batch too."""
    if x.dim() < 3:
        return original(x, weight, bias, eps)
    return _finished(_over(x, (0, -1), eps, centred=bias is not None), weight, bias)


@portable("gain-one-for-all-channels", seam="norm", component="norm", breaks=("NORM-3",))
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """Every channel gets the mean of the gains."""
    unit = _over(x, (-1,), eps, centred=bias is not None)
    del original
    return _finished(unit, weight.mean().expand_as(weight), bias)


@portable("gain-never-applied", seam="norm", component="norm", breaks=("NORM-3", "AUD-12"))
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The vector is normalised and its gain forgotten."""
    del original
    return _finished(_over(x, (-1,), eps, centred=bias is not None), torch.ones_like(weight), bias)


@portable(
    "shift-never-applied",
    seam="norm",
    component="norm",
    breaks=("AUD-12",),
    needs=("layernorm",),
)
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """LayerNorm's bias is a parameter that nothing reads."""
    del original, bias
    return _finished(_over(x, (-1,), eps, centred=True), weight, None)


@portable("norm-in-half-precision", seam="norm", component="dtype", breaks=("AUD-8",))
def _(
    original: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """Norms are computed in bfloat16 whatever the stream's precision."""
    unit = _over(x.bfloat16(), (-1,), eps, centred=bias is not None)
    del original
    return _finished(unit.to(x.dtype), weight, bias)


@portable(
    "no-final-norm",
    seam="final_norm",
    component="norm",
    breaks=("RES-5",),
    source="vllm-project/speculators#313",
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """The head reads the residual stream as it is."""
    del original
    return x
