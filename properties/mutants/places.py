"""Seams: places that every model has, whatever its code looks like, each called in one way.

    @rotary("rope-on-values", "ROPE-4", "rope.values_still")
    def _(own: Rotary) -> Triple:
        \"\"\"Values are turned as well.\"\"\"
        query, key, _ = own()
        return query, key, own(query=own.value, key=own.value)[1]

What stands in a seam is called with a `Place`: what the host computes with there, and, by calling
it, the host's own piece, on other arguments where some are named. Shapes: B rows, T queries, S
keys, H heads of width d, C channels, N tokens, E experts, V tokens of the vocabulary. Imports no
torch: the claims table reads from here which component a fault of a seam is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from theodolite.properties.mutants.registry import keep

if TYPE_CHECKING:
    from torch import Tensor

    from theodolite.properties.mutants.hosts import Parts

Pair = tuple["Tensor", "Tensor"]
Triple = tuple["Tensor", "Tensor", "Tensor"]
P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Place(Generic[R]):
    """What stands at a seam: the host's own piece and what it is called with."""

    original: Callable[..., R]

    def __call__(self, **changes: Any) -> R:
        """What the host computes here, on its own arguments but for those that are named."""
        changed = replace(self, **changes)
        return self.original(*(getattr(changed, each.name) for each in fields(self)[1:]))


@dataclass(frozen=True)
class Seam(Generic[P, R]):
    """A seam: called with a fault's name it registers the function that it decorates.

    Attributes:
        name: What hosts call it.
        place: What stands there.
        component: That of its faults, where they say no other.
        needs: Features that a host must have for them to matter, where they say no others.
    """

    name: str
    place: Callable[..., P]
    component: str
    needs: str = ""

    def __call__(
        self,
        name: str,
        breaks: str,
        caught_by: str = "",
        *,
        component: str | None = None,
        needs: str | None = None,
        source: str = "own",
        equivalent: str | None = None,
        also: str = "",
        often: str = "",
    ) -> Callable[[Callable[[P], R]], Callable[[P], R]]:
        """Register the decorated function; its docstring is the fault in one sentence.

        Args:
            name: Unique, in words joined by hyphens.
            breaks: The claims that it breaks, separated by spaces.
            caught_by: The checks that must catch it, likewise (see `Mutant.caught_by`).
            component: The part at fault, one of a report's component names.
            needs: Features of a host without which the change does nothing, or is no fault.
            source: "own", or the public thread that reports such a fault ("owner/repository#1").
            equivalent: Why the change is no fault; then `breaks` names claims that still hold.
            also: Components to which a report may lay it instead.
            often: Hosts in which every run of the tests tries it.

        Raises:
            ValueError: If the name is taken, the fault is not described, or no claim is named.
        """

        def register(fault: Callable[[P], R]) -> Callable[[P], R]:
            def change(original: Callable[..., Any], *arguments: Any) -> R:
                return fault(self.place(original, *arguments))

            keep(
                name,
                fault.__doc__,
                fault.__module__,
                seam=self.name,
                component=self.component if component is None else component,
                breaks=breaks,
                caught_by=caught_by,
                needs=self.needs if needs is None else needs,
                source=source,
                equivalent=equivalent,
                also=also,
                often=often,
                change=change,
            )
            return fault

        return register


# -- attention ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale(Place[float]):
    """The factor on q·k."""

    query: Tensor  # (B, H, T, d)


@dataclass(frozen=True)
class Scores(Place["Tensor"]):
    """Scaled products, (B, H, T, S)."""

    query: Tensor  # (B, H, T, d)
    key: Tensor  # (B, H, S, d)
    scale: float


@dataclass(frozen=True)
class Weights(Place["Tensor"]):
    """Attention weights, (B, H, T, S)."""

    scores: Tensor  # (B, H, T, S)
    visible: Tensor | None  # bool, broadcast to scores


@dataclass(frozen=True)
class Mix(Place["Tensor"]):
    """Means of values, (B, H, T, d)."""

    weights: Tensor  # (B, H, T, S)
    value: Tensor  # (B, H, S, d)


@dataclass(frozen=True)
class Attend(Place["Tensor"]):
    """Attention from scores to means, (B, H, T, d)."""

    query: Tensor
    key: Tensor
    value: Tensor
    visible: Tensor | None
    scale: float


@dataclass(frozen=True)
class Groups(Place["Tensor"]):
    """Keys or values for each query head, (B, H, S, d)."""

    x: Tensor  # (B, H_kv, S, d)
    heads: int


@dataclass(frozen=True)
class Project(Place[Triple]):
    """Query, key and value, split into heads, before any rotation."""

    x: Tensor  # (B, T, C)


@dataclass(frozen=True)
class Split(Place["Tensor"]):
    """Channels cut into heads, (B, H, T, d)."""

    x: Tensor  # (B, T, H·d)
    width: int


@dataclass(frozen=True)
class Join(Place["Tensor"]):
    """Heads joined, (B, T, H·d)."""

    x: Tensor  # (B, H, T, d)


@dataclass(frozen=True)
class Triangle(Place["Tensor"]):
    """Which keys come no later than each query: bool (T, S)."""

    queries: int
    keys: int


@dataclass(frozen=True)
class Window(Triangle):
    """Which keys lie within the window of each query: bool (T, S)."""

    width: int


@dataclass(frozen=True)
class Padding(Place["Tensor"]):
    """Which keys are no padding: bool (B, 1, T, S)."""

    mask: Tensor  # (B, S)
    queries: int


# -- positions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rotary(Place[Triple]):
    """Query and key turned, and the value."""

    query: Tensor
    key: Tensor
    value: Tensor
    cosine: Tensor  # broadcast to (B, H, T, d/2)
    sine: Tensor


@dataclass(frozen=True)
class Frequencies(Place["Tensor"]):
    """Radians a position, (d/2,)."""

    width: int
    base: float


@dataclass(frozen=True)
class Angles(Place[Pair]):
    """Cosine and sine, (..., T, d/2)."""

    positions: Tensor
    frequencies: Tensor


@dataclass(frozen=True)
class Positions(Place["Tensor"]):
    """The positions of new tokens, (T,) or (B, T)."""

    length: int
    past: int
    padding: Tensor | None  # (B, S)


@dataclass(frozen=True)
class Lookup(Place["Tensor"]):
    """The learned vectors of positions."""

    positions: Tensor


# -- parts of a block --------------------------------------------------------------------------


@dataclass(frozen=True)
class Block(Place["Tensor"]):
    """A block of the residual stream, its parts being callables."""

    x: Tensor  # (B, T, C)
    first: Callable[[Tensor], Tensor]
    attention: Callable[[Tensor], Tensor]
    second: Callable[[Tensor], Tensor]
    feed: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Norm(Place["Tensor"]):
    """A norm; without a bias it is an RMSNorm."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    eps: float


@dataclass(frozen=True)
class Part(Place["Tensor"]):
    """A part of the model that maps one tensor: a norm, a network, an activation, the head."""

    x: Tensor


@dataclass(frozen=True)
class Gate(Place["Tensor"]):
    """The hidden channels of a gated feed-forward network."""

    gate: Tensor
    up: Tensor


@dataclass(frozen=True)
class Router(Place[Pair]):
    """Weights and numbers of the chosen experts, (N, k) each."""

    logits: Tensor  # (N, E)
    k: int


@dataclass(frozen=True)
class Experts(Place["Tensor"]):
    """What the chosen experts make of each token, (N, C)."""

    x: Tensor  # (N, C)
    weights: Tensor  # (N, k)
    chosen: Tensor  # (N, k)


@dataclass(frozen=True)
class Dropout(Place["Tensor"]):
    """Dropout."""

    x: Tensor
    p: float
    training: bool


# -- a whole model -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Embed(Place["Tensor"]):
    """Token vectors, (B, T, C)."""

    ids: Tensor


@dataclass(frozen=True)
class Forward(Place[Any]):
    """Whatever the model returns; its other arguments are kept."""

    model: Any
    ids: Tensor

    def __call__(self, **changes: Any) -> Any:
        """What the model returns, on other ids where they are named."""
        return self.original(replace(self, **changes).ids)


@dataclass(frozen=True)
class Built(Place[None]):
    """The moment at which the model has been made."""

    parts: Parts


@dataclass(frozen=True)
class Loss(Place["Tensor"]):
    """The loss, a scalar."""

    logits: Tensor  # (B, T, V)
    targets: Tensor  # (B, T), standing where they are predicted


@dataclass(frozen=True)
class Extend(Place[Pair]):
    """Keys and values, those of the cache and new ones."""

    past_key: Tensor | None
    past_value: Tensor | None
    key: Tensor
    value: Tensor


@dataclass(frozen=True)
class Distribution(Place["Tensor"]):
    """Probabilities that the next token is drawn by, (B, V)."""

    logits: Tensor
    by: float  # the temperature
    k: int | None
    p: float | None


@dataclass(frozen=True)
class Crop(Place["Tensor"]):
    """The ids that the model is to read."""

    ids: Tensor
    context: int


@dataclass(frozen=True)
class Generate(Place["Tensor"]):
    """The ids, and those written on."""

    ids: Tensor
    count: int
    options: dict[str, Any]


scale: Seam[Scale, float] = Seam("scale", Scale, "scale")
scores: Seam[Scores, Tensor] = Seam("scores", Scores, "attention")
weights: Seam[Weights, Tensor] = Seam("weights", Weights, "softmax")
mix: Seam[Mix, Tensor] = Seam("mix", Mix, "attention")
attend: Seam[Attend, Tensor] = Seam("attend", Attend, "attention")
groups: Seam[Groups, Tensor] = Seam("groups", Groups, "heads", needs="gqa")
project: Seam[Project, Triple] = Seam("project", Project, "heads")
split: Seam[Split, Tensor] = Seam("split", Split, "heads")
join: Seam[Join, Tensor] = Seam("join", Join, "heads")
triangle: Seam[Triangle, Tensor] = Seam("triangle", Triangle, "mask")
window: Seam[Window, Tensor] = Seam("window", Window, "window")
padding: Seam[Padding, Tensor] = Seam("padding", Padding, "padding")
rotary: Seam[Rotary, Triple] = Seam("rotary", Rotary, "rope")
frequencies: Seam[Frequencies, Tensor] = Seam("frequencies", Frequencies, "rope")
angles: Seam[Angles, Pair] = Seam("angles", Angles, "rope")
positions: Seam[Positions, Tensor] = Seam("positions", Positions, "position")
lookup: Seam[Lookup, Tensor] = Seam("lookup", Lookup, "position")
block: Seam[Block, Tensor] = Seam("block", Block, "residual")
norm: Seam[Norm, Tensor] = Seam("norm", Norm, "norm")
final_norm: Seam[Part, Tensor] = Seam("final_norm", Part, "norm")
feed_forward: Seam[Part, Tensor] = Seam("feed_forward", Part, "feed_forward")
activation: Seam[Part, Tensor] = Seam("activation", Part, "feed_forward")
head: Seam[Part, Tensor] = Seam("head", Part, "batch")
gate: Seam[Gate, Tensor] = Seam("gate", Gate, "feed_forward")
router: Seam[Router, Pair] = Seam("router", Router, "moe")
experts: Seam[Experts, Tensor] = Seam("experts", Experts, "moe")
dropout: Seam[Dropout, Tensor] = Seam("dropout", Dropout, "dropout", needs="dropout")
embed: Seam[Embed, Tensor] = Seam("embed", Embed, "embedding")
forward: Seam[Forward, Any] = Seam("forward", Forward, "state")
built: Seam[Built, None] = Seam("built", Built, "init")
loss: Seam[Loss, Tensor] = Seam("loss", Loss, "loss")
extend: Seam[Extend, Pair] = Seam("extend", Extend, "cache")
distribution: Seam[Distribution, Tensor] = Seam("distribution", Distribution, "generation")
crop: Seam[Crop, Tensor] = Seam("crop", Crop, "generation")
generate: Seam[Generate, Tensor] = Seam("generate", Generate, "generation")

SEAMS: Mapping[str, Seam[Any, Any]] = {
    each.name: each for each in list(globals().values()) if isinstance(each, Seam)
}
"""Seams by name."""
