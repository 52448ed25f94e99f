"""Root causes: failed checks grouped by what explains them, and causes that are independent.

The likeliest cause is asked which failures it explains: those that its known fault was seen to
make, in whatever model, and those that accuse its own component. What is left is a second cause
only where a check of one part names its component as sure as trials make it, and faults of the
first cause's component have never been seen to make that check fail. Otherwise the rest follows
from the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from theodolite.diagnosis import Diagnostician, Suspect, accused, symptom_of
from theodolite.fixtures.judging.check import Check
from theodolite.properties.catalogue import cause_of

if TYPE_CHECKING:
    from theodolite.fixtures.judging.source_line import SourceLine


@dataclass(frozen=True)
class Cause:
    """What is wrong with a model, in one place.

    Attributes:
        component: The part at fault.
        cause: A short name of the fault; None where it is not known.
        says: The fault in a sentence.
        probability: Among the known faults, and unknown ones of each component.
        source: The line of the subject's own code that is likely at fault: {"file", "line",
            "function", "code"}; None where none can be told.
        explains: The failed checks that follow from it.
        evidence: What those measured that show it best, as sentences.
        proof: "repaired" where the failing checks pass once it is mended; None where not tried.
        repair: What was mended, as a sentence; None where nothing was.
    """

    component: str
    cause: str | None
    says: str
    probability: float
    source: Mapping[str, Any] | None = None
    explains: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    proof: str | None = None
    repair: str | None = None

    def at(self, source: SourceLine | Mapping[str, Any] | None) -> Cause:
        """The same at a line."""
        plain = source if source is None or isinstance(source, Mapping) else source.to_dict()
        return replace(self, source=plain)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        plain = {**asdict(self), "probability": round(self.probability, 3)}
        return {**plain, "explains": [*self.explains], "evidence": [*self.evidence]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Cause:
        """What `to_dict` wrote."""
        lists = {name: tuple(plain[name]) for name in ("explains", "evidence")}
        return cls(**{**plain, **lists})


def causes_of(checks: Sequence[Check], *, strict: bool = False) -> tuple[Cause, ...]:
    """The causes of the failures among `checks`, the likeliest first; none where none failed.

    Args:
        checks: The checks of one audit, in their order.
        strict: Whether what goes wrong only in a use that nobody has declared counts as well.
    """
    symptoms = symptoms_of(checks, strict=strict)
    if not any(symptoms.values()):
        return ()  # what passes need not know any fault
    from theodolite.knowledge import known_faults

    return tuple(_grouped(checks, symptoms, known_faults()))


def symptoms_of(checks: Sequence[Check], *, strict: bool) -> dict[str, str]:
    """What each check that ran says (see `theodolite.diagnosis.symptom_of`)."""
    counted = [c for c in checks if strict or not is_hazard(c)]
    said = {c.id: symptom_of(c.outcome, c.component, c.cause) for c in counted}
    return {check: symptom for check, symptom in said.items() if symptom is not None}


def is_hazard(check: Check) -> bool:
    """Whether a check failed, and for a use alone that nobody has declared."""
    return check.outcome == "failed" and check.level == "hazard"


def telling(checks: Sequence[Check], component: str, cause: str | None) -> list[Check]:
    """Failed checks that follow from one cause, those that tell most of it first."""
    return sorted(
        checks,
        key=lambda c: (
            c.component != component,
            cause is None or c.cause != cause,
            c.cause is None,
            c.measured is None,
        ),
    )


_SHOWN = 2


def _grouped(
    checks: Sequence[Check], symptoms: Mapping[str, str], known: Diagnostician
) -> list[Cause]:
    failed = {c.id: c for c in checks if symptoms.get(c.id)}
    left, found = dict(symptoms), list[Cause]()
    first: Suspect | None = None
    while any(left.values()):
        suspect = known.suspects(left)[0]
        if first is not None and not _independent(known, first, suspect, left):
            rest = tuple(c for c in failed if left.get(c))
            found[0] = replace(found[0], explains=(*found[0].explains, *rest))
            break
        explained = [c for c, said in left.items() if said and _explains(known, suspect, c, said)]
        explained = explained or [c for c, said in left.items() if said]
        found.append(_cause(suspect, [failed[c] for c in explained]))
        first = first or suspect
        left = {c: said for c, said in left.items() if c not in explained}
    order = {c: place for place, c in enumerate(failed)}
    return [replace(c, explains=tuple(sorted(c.explains, key=order.__getitem__))) for c in found]


def _explains(known: Diagnostician, suspect: Suspect, check: str, said: str) -> bool:
    return (
        check in suspect.evidence
        or accused(said) == suspect.component
        or known.follows(suspect.component, check, said)
    )


def _independent(
    known: Diagnostician, first: Suspect, second: Suspect, left: Mapping[str, str]
) -> bool:
    """Whether what the first cause leaves is a fault of its own."""
    if second.component == first.component:
        return False
    return any(
        accused(said) == second.component
        and check.partition(".")[0] in _OF_ONE_PART
        and known.means(check, said, second.component) > _SURE
        for check, said in left.items()
        if said
    )


_OF_ONE_PART = frozenset({
    "causality", "inside", "rope", "norm", "heads", "groups", "feed_forward", "residual", "experts",
    "tying", "loss", "generation",
})  # fmt: skip
"""Groups of checks that look at one part, or find the part where a difference enters. Others (a
cache, padding, gradients, saving) see whatever goes wrong anywhere: they are no sign of a second
fault where there is a first."""


_SURE = 0.5
"""More likely than not, by what the accusation meant in trials."""


def _cause(suspect: Suspect, checks: Sequence[Check]) -> Cause:
    told = telling(checks, suspect.component, suspect.cause)
    described = cause_of(suspect.cause) if suspect.cause else None
    says = suspect.sentence or (described.says if described else told[0].message if told else "")
    return Cause(
        component=suspect.component,
        cause=suspect.cause,
        says=says,
        probability=suspect.score,
        source=next((c.source for c in told if c.source is not None), None),
        explains=tuple(c.id for c in checks),
        evidence=tuple(dict.fromkeys(c.message for c in told))[:_SHOWN],
    )
