"""Faults of absolute positions, and of counting them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.places import Lookup, Positions, lookup, positions
from theodolite.properties.mutants.registry import Patch, library, mutant, source
from theodolite.reference import positions as reference_positions
from theodolite.reference import rotary


def _replace_sinusoidal(patch: Patch, channels_of: Any) -> None:
    """Let ``channels_of(positions (..., T, 1), i (C/2,), C)`` give sine and cosine channels."""

    def sinusoidal(places: Tensor, width: int, *, base: float = 10000.0) -> Tensor:
        pairs = torch.arange(width // 2, dtype=torch.float64)
        return torch.stack(channels_of(places[..., None], pairs, width, base), dim=-1).flatten(-2)

    patch.replace(reference_positions.sinusoidal, sinusoidal)


@mutant("sinusoid-exponent-halved", "POS-1", component="position")
def _(patch: Patch) -> None:
    """The exponent is i/C where it should be 2i/C."""

    def channels(m: Tensor, i: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
        angle = m * base ** (-i / width)
        return angle.sin(), angle.cos()

    _replace_sinusoidal(patch, channels)


@mutant("sinusoid-cosine-one-frequency-off", "POS-1", component="position")
def _(patch: Patch) -> None:
    """Every channel has a frequency of its own, so sine and cosine of a pair part."""

    def channels(m: Tensor, i: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
        return (m * base ** (-2 * i / width)).sin(), (m * base ** (-(2 * i + 1) / width)).cos()

    _replace_sinusoidal(patch, channels)


@mutant("sinusoid-fades", "POS-1", component="position")
def _(patch: Patch) -> None:
    """Later positions have shorter vectors."""

    def channels(m: Tensor, i: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
        angle, size = m * base ** (-2 * i / width), 1 / (1 + m.abs() / 1000)
        return angle.sin() * size, angle.cos() * size

    _replace_sinusoidal(patch, channels)


@mutant("sinusoid-learned", "POS-1", component="position")
def _(patch: Patch) -> None:
    """The sinusoidal vectors are only where training starts."""
    original = reference_positions.SinusoidalPositions.__init__

    def init(self: reference_positions.SinusoidalPositions, width: int, **options: Any) -> None:
        original(self, width, **options)
        self.table = torch.nn.Parameter(reference_positions.sinusoidal(torch.arange(64), width))

    patch.method(reference_positions.SinusoidalPositions, "__init__", init)


@mutant("learned-positions-wrap-around", "POS-2", component="position")
def _(patch: Patch) -> None:
    """A position past the table reads the vector of another one."""

    def forward(self: reference_positions.LearnedPositions, places: Tensor) -> Tensor:
        vectors: Tensor = self.table(places % self.context)
        return vectors

    patch.method(reference_positions.LearnedPositions, "forward", forward)


@mutant("learned-positions-unchecked", "POS-2", component="position")
def _(patch: Patch) -> None:
    """A position past the table ends in whatever error the look-up makes."""
    patch.replace(rotary.require_positions_below, lambda *_: None)


@mutant("learned-positions-one-row-late", "POS-2", component="position")
def _(patch: Patch) -> None:
    """Position 0 reads the second vector, the last one reads the first."""

    def forward(self: reference_positions.LearnedPositions, places: Tensor) -> Tensor:
        rotary.require_positions_below(self.context, places, "table of learned positions")
        vectors: Tensor = self.table((places + 1) % self.context)
        return vectors

    patch.method(reference_positions.LearnedPositions, "forward", forward)


@mutant("learned-positions-one-for-all", "POS-2 POS-3", component="position")
def _(patch: Patch) -> None:
    """Every position reads the first vector."""

    def forward(self: reference_positions.LearnedPositions, places: Tensor) -> Tensor:
        rotary.require_positions_below(self.context, places, "table of learned positions")
        vectors: Tensor = self.table(places * 0)
        return vectors

    patch.method(reference_positions.LearnedPositions, "forward", forward)


@mutant(
    "positions-counted-from-the-call",
    "POS-3",
    component="position",
    source="TransformerLensOrg/TransformerLens#1609",
)
def _(patch: Patch) -> None:
    """The positions that a caller gives are ignored: the first token always stands at 0."""
    for owner in (reference_positions.LearnedPositions, reference_positions.SinusoidalPositions):
        original = owner.forward
        patch.method(
            owner,
            "forward",
            lambda self, places, original=original: original(self, places - places.min()),
        )


# -- in every host that has the seam ---------------------------------------------------------------


@positions(
    "decoding-starts-at-position-zero",
    "GEN-4",
    "cache.long",
    needs="cache",
    source="keras-team/keras-hub#1544",
)
def _(own: Positions) -> Tensor:
    """Tokens behind a cache are counted from 0 again."""
    return own(past=0 if own.padding is None else own.past)


@positions(
    "offset-counted-twice", "GEN-4", "cache.steps", needs="cache", source="skyzh/tiny-llm#46"
)
def _(own: Positions) -> Tensor:
    """The length of the cache is added to the positions twice."""
    found = own()
    return found + own.past if own.padding is None else found


@positions("offset-one-off", "GEN-4", "cache.long", needs="cache")
def _(own: Positions) -> Tensor:
    """The first token behind a cache stands where the last one stood."""
    found = own()
    return found - (1 if own.past and own.padding is None else 0)


@positions("chunk-counted-once", "AUD-6", "cache.chunks", needs="cache")
def _(own: Positions) -> Tensor:
    """Every token of a chunk behind a cache stands at the first one's position."""
    found: Tensor = own()
    if own.padding is not None or own.past == 0:
        return found
    return found[..., :1].expand_as(found).clone()


@positions("positions-from-one", "POS-3", "positions.default positions.lookup")
def _(own: Positions) -> Tensor:
    """Positions that are not given are counted from the second on, with a gap behind the first."""
    found: Tensor = own()
    return found + (found > 0).long()


@positions("positions-counted-from-the-end", "AUD-2", "positions.lookup", needs="learned")
def _(own: Positions) -> Tensor:
    """The last token always stands at 0: where a token stands depends on what follows."""
    return own().flip(-1)


@lookup("one-position-vector-for-all", "POS-2 POS-3", "positions.lookup declared.positions")
def _(own: Lookup) -> Tensor:
    """Every position looks up the first vector."""
    return own(positions=own.positions * 0)


@lookup("first-position-does-not-learn", "POS-2", "positions.rows")
def _(own: Lookup) -> Tensor:
    """The row of position 0 is frozen, as padding_idx=0 does it."""
    found = own()
    first = (own.positions == 0)[..., None]
    return found.where(~first.to(found.device), found.detach())


@lookup("one-row-of-the-table-for-all", "POS-2", "positions.rows")
def _(own: Lookup) -> Tensor:
    """Positions are looked up, and the first one's vector is taken for all."""
    found = own()
    return found[..., :1, :].expand_as(found)


@lookup(
    "learned-positions-without-gradient", "AUD-12", "gradient.every_parameter", component="gradient"
)
def _(own: Lookup) -> Tensor:
    """The table of positions is detached: it never learns."""
    return own().detach()


# -- in the text of hosts ---------------------------------------------------------------


source("bias-of-distance-by-query-length", "AUD-6 GEN-4", "cache.steps", component="position",
    says="The bias of distance is counted within the new tokens: a single one has "
         "none.")  # fmt: skip
source("positions-that-are-given-are-mislaid", "POS-3 ROPE-9", "positions.default",
    component="position",
    says="Positions that are given are read in the order of other rows, or as 0.")  # fmt: skip
source("slopes-by-halves-of-the-heads", "POS-4", "positions.slopes", component="position",
    says="Slopes of a bias by distance are made for half of the heads and used twice.")  # fmt: skip
source("slopes-of-no-series", "POS-4", "positions.slopes", component="position",
    says="Slopes of a bias by distance are 1, 1/2, 1/3 ..., no powers of one number.")  # fmt: skip


@library(
    "falcon-slopes-by-halves",
    "POS-4",
    "positions.slopes",
    model="falcon",
    component="position",
    settings={"alibi": True},
)
def _(patch: Patch) -> None:
    """Falcon's slopes are made for half of the heads, and used twice."""
    from transformers.models.falcon import modeling_falcon

    original = modeling_falcon.build_alibi_tensor

    def build(attention_mask: Tensor, num_heads: int, dtype: torch.dtype) -> Tensor:
        half: Tensor = original(attention_mask, num_heads // 2, dtype)
        rows = half.unflatten(0, (len(attention_mask), num_heads // 2))
        both: Tensor = rows.repeat(1, 2, 1, 1).flatten(0, 1)
        return both

    patch.value(modeling_falcon, "build_alibi_tensor", build)


@library("mpt-slopes-by-halves", "POS-4", "positions.slopes", model="mpt", component="position")
def _(patch: Patch) -> None:
    """MPT's slopes are made for half of the heads, and used twice."""
    from transformers.models.mpt import modeling_mpt

    original: Callable[..., Tensor] = modeling_mpt.build_mpt_alibi_tensor

    def build(num_heads: int, *rest: Any, **options: Any) -> Tensor:
        half: Tensor = original(num_heads // 2, *rest, **options)
        return half.repeat(2, 1, 1)

    patch.value(modeling_mpt, "build_mpt_alibi_tensor", build)
