"""Faults of positions: rotation, frequencies, counting, learned vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import portable

Triple = tuple[Tensor, Tensor, Tensor]


def _one_earlier(cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
    """The angles of the positions before, also before the first; a row alone stays as it is."""
    if cosine.shape[-2] < 2:
        return cosine, sine
    (c0, c1), (s0, s1) = cosine[..., :2, :].unbind(-2), sine[..., :2, :].unbind(-2)
    step_cosine = (c1 * c0 + s1 * s0).unsqueeze(-2)  # cos(b - a) and sin(b - a)
    step_sine = (s1 * c0 - c1 * s0).unsqueeze(-2)
    return cosine * step_cosine + sine * step_sine, sine * step_cosine - cosine * step_sine


@portable("rope-on-values", seam="rotary", component="rope", breaks=("ROPE-4",))
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Values are turned as well."""
    query, key, _ = original(query, key, value, cosine, sine)
    return query, key, original(value, value, value, cosine, sine)[1]


@portable("rope-on-queries-alone", seam="rotary", component="rope", breaks=("ROPE-4", "ROPE-9"))
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Keys are not turned."""
    return original(query, key, value, cosine, sine)[0], key, value


@portable("rotation-of-keys-reversed", seam="rotary", component="rope", breaks=("ROPE-1", "ROPE-4"))
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Keys turn against the direction of the queries: scores depend on m + n."""
    turned = original(query, key, value, cosine, sine)[0]
    return turned, original(query, key, value, cosine, -sine)[1], value


@portable(
    "model-turned-along-heads",
    seam="rotary",
    component="rope",
    breaks=("ROPE-8",),
    source="facebookresearch/xformers#841",
)
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Heads are turned by their number, and positions not at all."""

    def turn(x: Tensor) -> Tensor:
        order = torch.arange(x.shape[1]).clamp_max(cosine.shape[-2] - 1)
        table = (part[..., order, :] for part in (cosine, sine))
        turned: Tensor = original(*(3 * [x.transpose(1, 2)]), *table)[1]
        return turned.transpose(1, 2)

    return turn(query), turn(key), value


@portable("rope-keys-one-late", seam="rotary", component="rope", breaks=("ROPE-4",))
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Keys are turned by the angle of the position before theirs."""
    turned = original(query, key, value, cosine, sine)[0]
    return turned, original(query, key, value, *_one_earlier(cosine, sine))[1], value


@portable("rope-twice", seam="rotary", component="rope", breaks=("ROPE-3",))
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Queries and keys are turned twice."""
    once = original(query, key, value, cosine, sine)
    return original(*once, cosine, sine)


@portable("rope-without-its-sine", seam="rotary", component="rope", breaks=("ROPE-1",))
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Channels are multiplied by the cosine and nothing is added: vectors shrink and return."""
    return original(query, key, value, cosine, sine * 0)


@portable("rope-by-one-sign", seam="rotary", component="rope", breaks=("ROPE-1",))
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """Both halves of a pair add the sine: no rotation, and no length is kept."""

    def turn(x: Tensor) -> Tensor:
        still = original(x, x, x, cosine, sine * 0)[0]
        crossed = original(x, x, x, cosine * 0, sine)[0]
        mended: Tensor = still + crossed.abs() * x.sign()
        return mended

    return turn(query), turn(key), value


@portable(
    "rotation-without-gradient",
    seam="rotary",
    component="gradient",
    breaks=("AUD-12",),
    source="pico-lm/pico-train#27",
)
def _(
    original: Callable[..., Triple],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Triple:
    """The rotation runs under no_grad: queries and keys never learn."""
    query, key, value = original(query, key, value, cosine, sine)
    return query.detach(), key.detach(), value


# -- frequencies and angles --------------------------------------------------------------------


@portable(
    "rope-frequencies-reversed", seam="frequencies", component="rope", breaks=("ROPE-3", "ROPE-6")
)
def _(original: Callable[..., Tensor], width: int, base: float) -> Tensor:
    """The slowest pair comes first."""
    return original(width, base).flip(0)


@portable(
    "frequencies-fall-in-a-straight-line", seam="frequencies", component="rope", breaks=("ROPE-3",)
)
def _(original: Callable[..., Tensor], width: int, base: float) -> Tensor:
    """Pair i turns by 1 - 2i/d: the index is a factor, not part of the exponent."""
    own = original(width, base)
    return 1 - torch.arange(0, width, 2, dtype=own.dtype) / width


@portable(
    "rope-exponent-i-over-d", seam="frequencies", component="rope", breaks=("ROPE-3", "ROPE-7")
)
def _(original: Callable[..., Tensor], width: int, base: float) -> Tensor:
    """The exponent is i/d where it should be 2i/d."""
    return original(width, base) ** 0.5


@portable("rope-exponent-over-d-minus-2", seam="frequencies", component="rope", breaks=("ROPE-3",))
def _(original: Callable[..., Tensor], width: int, base: float) -> Tensor:
    """The exponent is 2i/(d - 2): the last pair turns at 1/base."""
    return original(width, base) ** (width / max(width - 2, 1))


@portable("rope-one-frequency-for-all", seam="frequencies", component="rope", breaks=("ROPE-3",))
def _(original: Callable[..., Tensor], width: int, base: float) -> Tensor:
    """Every pair turns by one radian a position."""
    return torch.ones_like(original(width, base))


@portable(
    "rope-base-fixed-at-a-hundred",
    seam="frequencies",
    component="rope",
    breaks=("ROPE-3", "ROPE-6"),
    source="Lightning-AI/litgpt#1713",
)
def _(original: Callable[..., Tensor], width: int, base: float) -> Tensor:
    """The base that is asked for is not handed on."""
    del base
    return original(width, 100.0)


@portable(
    "rope-angles-in-bfloat16",
    seam="angles",
    component="rope",
    breaks=("ROPE-1", "ROPE-2", "ROPE-7"),
    source="EleutherAI/gpt-neox#1003",
)
def _(
    original: Callable[..., tuple[Tensor, Tensor]], positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """Frequencies and positions are cast to bfloat16 before they are multiplied."""
    own = original(positions, frequencies)[0].dtype
    angles = (positions[..., None].bfloat16() * frequencies.bfloat16()).to(own)
    return angles.cos(), angles.sin()


@portable(
    "rope-quadratic-angle", seam="angles", component="rope", breaks=("ROPE-1", "ROPE-2", "ROPE-9")
)
def _(
    original: Callable[..., tuple[Tensor, Tensor]], positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """The angle grows with the square of the position."""
    return original(positions * positions, frequencies)


@portable("rope-positions-wrap-around", seam="angles", component="rope", breaks=("ROPE-1",))
def _(
    original: Callable[..., tuple[Tensor, Tensor]], positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """The table has eight rows and is read from its beginning again."""
    return original(positions % 8, frequencies)


@portable("rope-ignores-positions", seam="angles", component="rope", breaks=("ROPE-1", "ROPE-8"))
def _(
    original: Callable[..., tuple[Tensor, Tensor]], positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """Every position is turned by the same angle."""
    return original(torch.ones_like(positions), frequencies)


@portable(
    "rope-lengthens-what-it-turns",
    seam="angles",
    component="rope",
    breaks=("ROPE-2",),
    source="sgl-project/sglang#33558",
)
def _(
    original: Callable[..., tuple[Tensor, Tensor]], positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """Cosine and sine carry a factor of 1.2 that nobody declared."""
    cosine, sine = original(positions, frequencies)
    return 1.2 * cosine, 1.2 * sine


@portable("rope-sine-of-another-frequency", seam="angles", component="rope", breaks=("ROPE-2",))
def _(
    original: Callable[..., tuple[Tensor, Tensor]], positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """The sine is taken of half the angle."""
    return original(positions, frequencies)[0], original(positions, frequencies / 2)[1]


# -- counting ----------------------------------------------------------------------------------


@portable(
    "decoding-starts-at-position-zero",
    seam="positions",
    component="position",
    breaks=("GEN-4",),
    source="keras-team/keras-hub#1544",
    needs=("cache",),
)
def _(original: Callable[..., Tensor], length: int, past: int, padding: Any) -> Tensor:
    """Tokens behind a cache are counted from 0 again."""
    return original(length, 0 if padding is None else past, padding)


@portable(
    "offset-counted-twice",
    seam="positions",
    component="position",
    breaks=("GEN-4",),
    source="skyzh/tiny-llm#46",
    needs=("cache",),
)
def _(original: Callable[..., Tensor], length: int, past: int, padding: Any) -> Tensor:
    """The length of the cache is added to the positions twice."""
    found = original(length, past, padding)
    return found + past if padding is None else found


@portable(
    "offset-one-off", seam="positions", component="position", breaks=("GEN-4",), needs=("cache",)
)
def _(original: Callable[..., Tensor], length: int, past: int, padding: Any) -> Tensor:
    """The first token behind a cache stands where the last one stood."""
    found = original(length, past, padding)
    return found - (1 if past and padding is None else 0)


@portable(
    "chunk-counted-once",
    seam="positions",
    component="position",
    breaks=("AUD-6",),
    needs=("cache",),
)
def _(original: Callable[..., Tensor], length: int, past: int, padding: Any) -> Tensor:
    """Every token of a chunk behind a cache stands at the first one's position."""
    found: Tensor = original(length, past, padding)
    if padding is not None or past == 0:
        return found
    return found[..., :1].expand_as(found).clone()


@portable("positions-from-one", seam="positions", component="position", breaks=("POS-3",))
def _(original: Callable[..., Tensor], length: int, past: int, padding: Any) -> Tensor:
    """Positions that are not given are counted from the second on, with a gap behind the first."""
    found: Tensor = original(length, past, padding)
    return found + (found > 0).long()


@portable(
    "positions-counted-from-the-end",
    seam="positions",
    component="position",
    breaks=("AUD-2",),
    needs=("learned",),
)
def _(original: Callable[..., Tensor], length: int, past: int, padding: Any) -> Tensor:
    """The last token always stands at 0: where a token stands depends on what follows."""
    return original(length, past, padding).flip(-1)


@portable(
    "one-position-vector-for-all", seam="lookup", component="position", breaks=("POS-2", "POS-3")
)
def _(original: Callable[..., Tensor], positions: Tensor) -> Tensor:
    """Every position looks up the first vector."""
    return original(positions * 0)


@portable(
    "learned-positions-without-gradient", seam="lookup", component="gradient", breaks=("AUD-12",)
)
def _(original: Callable[..., Tensor], positions: Tensor) -> Tensor:
    """The table of positions is detached: it never learns."""
    return original(positions).detach()
