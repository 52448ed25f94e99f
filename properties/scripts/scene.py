"""What a script needs to know of a subject: how it is called and where its logits stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from theodolite.fixtures.judging.judgement import NotApplicable
from theodolite.fixtures.serving.padding import Padding, padding_of
from theodolite.fixtures.subject.output import locate_loss
from theodolite.fixtures.subject.subject import Subject
from theodolite.fixtures.subject.view import Arrangement
from theodolite.report import Check

_LENGTHS = (2, 3, 4, 5, 7, 9, 13)


@dataclass(frozen=True, eq=False)
class Scene:
    """A failed check and the subject that failed it.

    Attributes:
        subject: The subject.
        check: The failed check.
        build: The expression that makes another instance.
    """

    subject: Subject
    check: Check
    build: str

    # -- calling ---------------------------------------------------------------------------------

    @cached_property
    def pick(self) -> str:
        """What takes logits (B, T, V) out of what the model returns, as source behind it."""
        ids = self.subject.random_ids(2)
        output = self.subject.raw(self.subject.model, ids)
        return self.subject.convention.picked(output, ids)

    def loss(self, *more: str) -> str | None:
        """The loss for `targets`, given `more` besides, as source; None if it returns none."""
        keyword = self.subject.targets
        if keyword is None:
            return None
        ids = self.subject.random_ids(2)
        place = locate_loss(self.subject.raw(self.subject.model, ids, {keyword: ids}))
        call = self.subject.convention.source(f"{keyword}=targets", *more, without=keyword)
        return None if place is None else call + place.source()

    @cached_property
    def padding(self) -> Padding | None:
        """How the subject is told which tokens are padding, or None."""
        return None if self.subject.padding is None else padding_of(self.subject)

    def mask(self, real: list[list[bool]]) -> str:
        """A padding mask as source."""
        padding = self.padding
        assert padding is not None
        rows = [[padding.real if each else padding.hidden for each in row] for row in real]
        return f"torch.tensor({rows})".replace("-inf", 'float("-inf")')

    # -- places ----------------------------------------------------------------------------------

    @cached_property
    def embedding(self) -> str | None:
        """Path of the module that embeds tokens."""
        found = self.subject.views.as_given.insides.random.embedding()
        return None if found is None else found.path

    @cached_property
    def head(self) -> str | None:
        """Path of the last linear layer that is as wide as the vocabulary."""
        rows = self.subject.embedding_rows
        found = [
            path
            for path, module in self.subject.model.named_modules()
            if isinstance(module, nn.Linear) and module.out_features == rows
        ]
        return found[-1] if found else None

    @property
    def module(self) -> str | None:
        """Path of the module where the check failed."""
        found = self.check.where.get("module")
        return str(found) if found else None

    @property
    def layer(self) -> int:
        """Number of the layer where the check failed."""
        layer: int = self.check.where.get("layer", 0)
        return layer

    # -- tokens ----------------------------------------------------------------------------------

    def lengths(self, least: int = 1) -> list[int]:
        """Lengths to try, the shortest first, up to the audit's own."""
        only = self.subject.convention.only_length
        if only is not None:
            return [only]
        least = max(least, self.subject.shortest)
        most = self.subject.length
        return sorted({n for n in (1, *_LENGTHS, most) if least <= n <= most})

    def tokens(self, length: int, *, start: int = 0) -> list[int]:
        """The smallest different tokens."""
        return [(start + i) % self.subject.vocabulary for i in range(length)]

    def mixed(self, length: int, *, seed: int = 0) -> list[int]:
        """Tokens in no order, the same every time."""
        found: list[int] = self.subject.random_ids(1, length, seed=seed)[0].tolist()
        return found

    def sequences(self, least: int = 1) -> Iterator[list[int]]:
        """Sequences to try, the smallest first."""
        for length in self.lengths(least):
            yield self.tokens(length)
            yield self.mixed(length)

    def other(self, token: int) -> int:
        """Another token: the next."""
        return (token + 1) % self.subject.vocabulary


def arrangement(scene: Scene, view: str) -> Arrangement | None:
    """How a script brings a model into a view of the subject; None where it has no such view."""
    try:
        return scene.subject.views(view).arrangement
    except NotApplicable:
        return None
