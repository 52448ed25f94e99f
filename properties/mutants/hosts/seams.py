"""Hosts: known-good models with seams, at which a fault is written once and put into each of them.

Each seam has one calling convention, whatever the host's code looks like: `places` has them all. A
cut puts a change, called with the host's own piece first, into one seam of one host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.mutants.patching import Patch

if TYPE_CHECKING:
    from theodolite.properties.mutants.registry import Mutant

Change = Callable[..., Any]
"""What stands in a seam: called with the host's own piece, then the seam's arguments."""

Cut = Callable[[Patch, Change], None]
"""Puts a change into one seam of one host."""


@dataclass
class Parts:
    """What a model is made of, whatever its names.

    Attributes:
        model: The whole.
        embedding: The token embedding.
        head: The linear layer to the logits.
        owner: The module that holds the blocks, under the name `blocks`.
        blocks: That name.
        final_norm: The norm before the head.
    """

    model: nn.Module
    embedding: nn.Embedding
    head: nn.Linear
    owner: nn.Module
    blocks: str
    final_norm: nn.Module

    def layers(self) -> list[nn.Module]:
        """The blocks, first to last."""
        return list(getattr(self.owner, self.blocks))


class AnyHost(Protocol):
    """A known-good model into which faults are put, in whatever way."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    def fits(self, mutant: Mutant) -> bool:
        """Whether it has a place for the fault."""

    def put(self, mutant: Mutant, patch: Patch) -> None:
        """Make the fault, until `patch` is undone, as far as it is not in the text."""

    def subject(self, mutant: Mutant | None = None) -> Subject:
        """The model, built afresh, with what is declared of it for the fault's sake.

        Raises:
            SubjectError: If a fault keeps it from being built or called.
        """


@dataclass(frozen=True)
class Host:
    """A known-good model with seams.

    Attributes:
        name: Its name on the command line.
        spec: What is audited, as `Subject.load` takes it.
        seams: Where a change can be put, and how.
        features: What it has of what mutants need: "learned" (positions), "gqa", "rmsnorm",
            "layernorm", "cache", "shift" (its loss shifts), "gate" (named so), "tied" ...
        declarations: What is declared of it.
    """

    name: str
    spec: str | Callable[..., Any]
    seams: Mapping[str, Cut]
    features: frozenset[str]
    declarations: Mapping[str, Any] = field(default_factory=dict)

    def fits(self, mutant: Mutant) -> bool:
        """Whether it has the seam and what the fault needs, or is the one host of the fault."""
        if mutant.host is not None:
            return mutant.host == self.name
        return mutant.seam in self.seams and self.features.issuperset(mutant.needs)

    def put(self, mutant: Mutant, patch: Patch) -> None:
        """Let the fault stand in its seam until `patch` is undone."""
        if mutant.apply is not None:
            mutant.apply(patch)
        elif mutant.change is not None:
            self.wrap(mutant.seam, mutant.change, patch)

    def subject(self, mutant: Mutant | None = None) -> Subject:
        """The model, built afresh, as `theodolite.audit` takes it.

        Raises:
            SubjectError: If a fault keeps it from being built or called.
        """
        declare = {} if mutant is None else mutant.declare
        return Subject.load(self.spec, declarations={**self.declarations, **declare})

    def wrap(self, seam: str, change: Change, patch: Patch) -> None:
        """Let `change` stand in `seam` until `patch` is undone.

        Raises:
            LookupError: If the host has no such seam.
        """
        if seam not in self.seams:
            raise LookupError(f"{self.name} has no seam {seam!r}; it has {', '.join(self.seams)}")
        self.seams[seam](patch, change)


# -- ways to cut -------------------------------------------------------------------------------


def function(module: ModuleType, name: str) -> Cut:
    """The seam is a function of a module, looked up there whenever it is called."""

    def cut(patch: Patch, change: Change) -> None:
        patch.value(module, name, partial(change, getattr(module, name)))

    return cut


def method(owner: type, name: str) -> Cut:
    """The seam is a method; the host's own piece is bound to the instance."""

    def cut(patch: Patch, change: Change) -> None:
        original = vars(owner)[name]

        @wraps(original)
        def changed(self: Any, *arguments: Any, **options: Any) -> Any:
            return change(partial(original, self), *arguments, **options)

        patch.method(owner, name, changed)

    return cut


def part(owner: type, *names: str) -> Cut:
    """The seam is the forward of the submodules `names` of every new `owner`."""

    def cut(patch: Patch, change: Change) -> None:
        def act(self: nn.Module) -> None:
            for name in names:
                rewrite(self.get_submodule(name), lambda own, _, *given: change(own, *given))

        patch.after_init(owner, act)

    return cut


def rewrite(module: nn.Module, forward: Callable[..., Any]) -> None:
    """Give one module another forward: called with its own, itself, and the arguments."""
    kind = type(module)

    def changed(self: nn.Module, *given: Any) -> Any:
        return forward(partial(kind.forward, self), self, *given)

    members = {"forward": changed, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    module.__class__ = type(kind.__name__, (kind,), members)


def whole(owner: type, name: str = "forward") -> Cut:
    """The seam is the model's forward of ids; its other arguments are kept."""

    def cut(patch: Patch, change: Change) -> None:
        original = vars(owner)[name]

        @wraps(original)
        def forward(self: Any, ids: Any = None, *arguments: Any, **options: Any) -> Any:
            ids = options.pop("input_ids", ids)

            def go_on(tokens: Tensor) -> Any:
                return original(self, tokens, *arguments, **options)

            return change(go_on, self, ids)

        patch.method(owner, name, forward)

    return cut


def built(owner: type, *, embedding: str, head: str, blocks: str, final_norm: str) -> Cut:
    """The seam is the moment at which the model has been made, its parts having these names."""

    def parts(model: Any) -> Parts:
        place, _, name = blocks.rpartition(".")
        return Parts(
            model=model,
            embedding=model.get_submodule(embedding),
            head=model.get_submodule(head),
            owner=model.get_submodule(place),
            blocks=name,
            final_norm=model.get_submodule(final_norm),
        )

    def cut(patch: Patch, change: Change) -> None:
        patch.after_init(owner, lambda model: change(lambda _: None, parts(model)))

    return cut


# -- pieces written out ------------------------------------------------------------------------


def scale(query: Tensor) -> float:
    """1/√d."""
    return 1 / math.sqrt(query.shape[-1])


def scores(query: Tensor, key: Tensor, factor: float) -> Tensor:
    """Scaled dot products, (B, H, T, S)."""
    return query @ key.transpose(-2, -1) * factor


def hidden(found: Tensor, visible: Tensor | None) -> Tensor:
    """Scores whose exponential is 0 where they are hidden; a row that sees nothing stays finite."""
    return found if visible is None else found.masked_fill(~visible, torch.finfo(found.dtype).min)


def weights(found: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax over the visible keys."""
    return hidden(found, visible).softmax(dim=-1)


def mix(shares: Tensor, value: Tensor) -> Tensor:
    """Means of values."""
    return shares @ value


WRITTEN_OUT: Mapping[str, Callable[..., Any]] = {"scores": scores, "weights": weights, "mix": mix}


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, by: float) -> Tensor:
    """Attention of heads, written out."""
    return mix(weights(scores(query, key, by), visible), value)


def written_out(attending: Cut) -> dict[str, Cut]:
    """Seams inside a fused attention, which is written out when a change is put into one."""

    def inside(seam: str) -> Cut:
        def cut(patch: Patch, change: Change) -> None:
            steps: dict[str, Callable[..., Any]] = dict(WRITTEN_OUT)
            steps[seam] = partial(change, WRITTEN_OUT[seam])

            def attended(
                _: Any, query: Tensor, key: Tensor, value: Tensor, visible: Any, by: float
            ) -> Tensor:
                shares = steps["weights"](steps["scores"](query, key, by), visible)
                mixed: Tensor = steps["mix"](shares, value)
                return mixed

            attending(patch, attended)

        return cut

    return {seam: inside(seam) for seam in WRITTEN_OUT}


def groups(x: Tensor, heads: int) -> Tensor:
    """Each key head for its group of neighbouring query heads."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def split(x: Tensor, width: int) -> Tensor:
    """(B, T, H·d) -> (B, H, T, d)."""
    return x.view(*x.shape[:2], -1, width).transpose(1, 2)


def join(x: Tensor) -> Tensor:
    """(B, H, T, d) -> (B, T, H·d)."""
    return x.transpose(1, 2).flatten(2)


def pre_norm(x: Tensor, first: Any, attention: Any, second: Any, feed_forward: Any) -> Tensor:
    """A block, its branches reading through their norms."""
    x = x + attention(first(x))
    out: Tensor = x + feed_forward(second(x))
    return out


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """SiLU(gate) · up."""
    return F.silu(gate) * up


def extend(
    past_key: Tensor | None, past_value: Tensor | None, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor]:
    """What was kept, then what is new."""
    if past_key is None or past_value is None:
        return key, value
    return torch.cat((past_key, key), -2), torch.cat((past_value, value), -2)


def triangle(queries: int, keys: int) -> Tensor:
    """Bool (T, S): the queries are the last of the keys."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def padding(mask: Tensor, queries: int) -> Tensor:
    """Bool (B, 1, T, S): no padding, but every token sees itself."""
    itself = torch.eye(mask.shape[1], dtype=torch.bool)[-queries:]
    return (mask.bool()[:, None] | itself)[:, None]
