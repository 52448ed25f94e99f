"""Faults of heads: projection, splitting, groups, joining."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from theodolite.properties.mutants.registry import portable


@portable(
    "values-are-the-keys",
    seam="project",
    component="attention",
    breaks=("MHA-3",),
    source="yflyzhang/AnnotatedTransformer#1",
)
def _(original: Callable[..., tuple[Tensor, ...]], x: Tensor) -> tuple[Tensor, ...]:
    """Values are what the keys' part of the projection gives; their own part lies idle."""
    query, key, _ = original(x)
    return query, key, key


@portable("second-head-copies-the-first", seam="project", component="heads", breaks=("MHA-5",))
def _(original: Callable[..., tuple[Tensor, ...]], x: Tensor) -> tuple[Tensor, ...]:
    """The second head asks with the first one's queries; where it has keys, with its keys too."""
    query, key, value = original(x)
    if query.shape[1] < 2:
        return query, key, value
    order = [0, 0, *range(2, query.shape[1])]
    key = key[:, order] if key.shape[1] == query.shape[1] else key
    return query[:, order], key, value


@portable("queries-from-the-batch-mean", seam="project", component="batch", breaks=("AUD-3",))
def _(original: Callable[..., tuple[Tensor, ...]], x: Tensor) -> tuple[Tensor, ...]:
    """Queries are centred over the rows of the batch."""
    query, key, value = original(x)
    return query - query.mean(0, keepdim=True), key, value


@portable("heads-split-by-a-view", seam="split", component="heads", breaks=("GPT-4",))
def _(original: Callable[..., Tensor], x: Tensor, width: int) -> Tensor:
    """Time and channels are cut into heads by a view, without exchanging the axes."""
    del original
    return x.contiguous().view(x.shape[0], -1, x.shape[1], width)


@portable(
    "heads-joined-without-transpose",
    seam="join",
    component="heads",
    breaks=("MHA-2", "MHA-4"),
    source="jsbaan/transformer-from-scratch#6",
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Heads are put side by side as they lie, without moving time back to the front."""
    del original
    return x.contiguous().view(x.shape[0], x.shape[2], -1)


@portable("heads-averaged-not-joined", seam="join", component="heads", breaks=("MHA-4",))
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Every head hands on the mean over all heads."""
    return original(x.mean(1, keepdim=True).expand_as(x))


@portable(
    "groups-tiled",
    seam="groups",
    component="heads",
    breaks=("MHA-2",),
    source="onnx/onnx#7274",
    needs=("gqa",),
)
def _(original: Callable[..., Tensor], x: Tensor, heads: int) -> Tensor:
    """Key heads are handed out in turn (0, 1, 0, 1), not to neighbours (0, 0, 1, 1)."""
    del original
    return x.repeat(1, heads // x.shape[1], 1, 1)


@portable(
    "one-key-head-for-all", seam="groups", component="heads", breaks=("MHA-2",), needs=("gqa",)
)
def _(original: Callable[..., Tensor], x: Tensor, heads: int) -> Tensor:
    """All query heads get the first key head; the others lie idle."""
    del original
    return x[:, :1].expand(-1, heads, -1, -1)
