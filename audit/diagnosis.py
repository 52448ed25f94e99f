"""From the pattern of failed checks to a ranked list of causes.

What is known comes from trials: known faults, each put into known-good models and audited
(`theodolite mutants`). What a check says, its symptom, is that it passed, or which component and
cause it accuses itself.

Two things are learned. How a fault looks: for each check the probability of its symptoms, by the
fault's own trials; how far one trial tells of another in a different model is measured on the
faults that were tried in several. And what an accusation is worth: a check that accuses a component
is right so often, and means another so often.

A fault that nobody has tried looks like none of the known ones. Such a fault is a hypothesis
too, one under which checks fail as often as they do for faults in general; where it explains the
symptoms best, the cause is unknown and the accusations alone name the component.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K")

PASSED = ""
"""The symptom of a check that passed."""

MOST = 3
"""Causes told at most."""

_Evidence = Mapping[str | None, Mapping[str, float]]
"""Fault (None: any) → check → logarithm of the probability that it says what it said."""

_ONE_TRIAL = 1.0
"""Weight of what holds in general beside what was seen, in trials: as much as one of them."""


@dataclass(frozen=True)
class Fault:
    """A known fault: its name, the component at fault, and one sentence."""

    name: str
    component: str
    sentence: str


@dataclass(frozen=True)
class Trial:
    """One known fault in one known-good model, as its audit saw it.

    Attributes:
        fault: The fault's name.
        host: The model's name.
        symptoms: For every check that ran, what it said (see `symptom_of`).
        shown: The causes that the model's numbers show; None where that was not looked at.
    """

    fault: str
    host: str
    symptoms: Mapping[str, str]
    shown: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Suspect:
    """A likely cause of the failures of an audit.

    Attributes:
        component: The part that is accused.
        cause: The known fault that the failures look like; where they look like none, what the
            failed checks themselves say, or None.
        sentence: That fault in one sentence; "" where the cause is unknown.
        score: Its probability among the known faults and unknown ones in each component.
        evidence: The failed checks that speak for it.
    """

    component: str
    cause: str | None
    sentence: str
    score: float
    evidence: tuple[str, ...]


def symptom_of(outcome: str, component: str, cause: str | None) -> str | None:
    """What a check's outcome says: `PASSED`, "component" or "component/cause"; None: nothing."""
    if outcome == "passed":
        return PASSED
    if outcome != "failed":
        return None
    return f"{component}/{cause}" if cause else component


def accused(symptom: str) -> str:
    """The component that a failed check's symptom accuses."""
    return symptom.partition("/")[0]


class Diagnostician:
    """Knows what known faults look like, and compares.

    Args:
        faults: The known faults.
        trials: How audits saw them. Those that no check caught teach nothing and are left out, and
            so are those of other faults.
    """

    def __init__(self, faults: Iterable[Fault], trials: Iterable[Trial]) -> None:
        self._faults = {fault.name: fault for fault in faults}
        kept = [t for t in trials if t.fault in self._faults and any(t.symptoms.values())]
        self._seen: dict[str, dict[str, Counter[str]]] = {}
        self._overall: dict[str, Counter[str]] = defaultdict(Counter)
        self._meant: dict[tuple[str, str], dict[str, float]] = {}
        for trial in kept:
            fault = self._seen.setdefault(trial.fault, defaultdict(Counter))
            # A fault that breaks everything says little of what one accusation means.
            share = 1 / sum(map(bool, trial.symptoms.values()))
            for check, said in trial.symptoms.items():
                fault[check][said] += 1
                self._overall[check][said] += 1
                if said:
                    component = self._faults[trial.fault].component
                    meant = self._meant.setdefault((check, accused(said)), {})
                    meant[component] = meant.get(component, 0.0) + share
        self._unknown = max(1, len(self._seen))  # as many faults as are known are not, a priori
        self._failing = _share_of_failures(kept)
        self._stays, self._strays = _agreement(kept, self._failing)

    def suspects(self, symptoms: Mapping[str, str]) -> list[Suspect]:
        """The causes that explain `symptoms`, likeliest first; none if no check failed.

        Args:
            symptoms: For every check that ran, what it said (see `symptom_of`).
        """
        failed = [check for check, said in symptoms.items() if said]
        if not failed:
            return []
        scores, first = self._scores(symptoms, failed)
        ranked = sorted(scores, key=lambda each: (each[0] != first, -scores[each]))
        told = [each for each in ranked if scores[each] > 1 / (2 * MOST)][:MOST] or ranked[:1]
        return [self._suspect(*each, scores[each], symptoms, failed) for each in told]

    def ranking(self, symptoms: Mapping[str, str]) -> list[tuple[Fault, float]]:
        """Every known fault with its probability by `symptoms`, the likeliest first."""
        failed = [check for check, said in symptoms.items() if said]
        scores = self._scores(symptoms, failed)[0] if failed else {}
        known = [(cause, score) for (_, cause), score in scores.items() if cause is not None]
        known.sort(key=lambda each: -each[1])
        return [(self._faults[cause], score) for cause, score in known]

    def _scores(
        self, symptoms: Mapping[str, str], failed: Sequence[str]
    ) -> tuple[dict[tuple[str, str | None], float], str]:
        """The probability of each component with each cause, and the likeliest component."""
        evidence = {
            fault: {check: self._under(fault, check, said) for check, said in symptoms.items()}
            for fault in (*self._seen, None)
        }
        components = self._components(evidence, symptoms, failed)
        first = max(components, key=lambda component: components[component])
        scores = {
            (component, cause): share * inner
            for component, share in components.items()
            for cause, inner in self._causes(component, evidence).items()
        }
        return scores, first

    def means(self, check: str, said: str, component: str) -> float:
        """How likely the accusation of a failed check means `component`, by what it meant so far.

        Args:
            check: Its id.
            said: Its symptom (see `symptom_of`).
            component: Who may be meant.
        """
        return self._vote(check, said).get(component, 0.0)

    def follows(self, component: str, check: str, said: str) -> bool:
        """Whether a fault of `component` was ever seen to make `check` say so."""
        return component in self._meant.get((check, accused(said)), {})

    def _suspect(
        self,
        component: str,
        cause: str | None,
        score: float,
        symptoms: Mapping[str, str],
        failed: Sequence[str],
    ) -> Suspect:
        if cause is None or self._named_otherwise(cause, symptoms, failed):
            speaks = [c for c in failed if component in self._vote(c, symptoms[c])]
            own = Counter(
                symptoms[c].partition("/")[2] for c in speaks if accused(symptoms[c]) == component
            )
            del own[""]
            cause = next((name for name, _ in own.most_common(1)), None)
            return Suspect(component, cause, "", score, tuple(speaks))
        seen = self._seen[cause]
        speaks = [c for c in failed if c in seen and seen[c][PASSED] < seen[c].total()]
        return Suspect(component, cause, self._faults[cause].sentence, score, tuple(speaks))

    def _named_otherwise(
        self, fault: str, symptoms: Mapping[str, str], failed: Sequence[str]
    ) -> bool:
        """Whether checks name a cause in the fault's component that they never named for it."""
        component, seen = self._faults[fault].component, self._seen[fault]
        named = [c for c in failed if symptoms[c].startswith(f"{component}/")]
        return bool(named) and not any(seen[c][symptoms[c]] for c in named if c in seen)

    def _components(
        self, evidence: _Evidence, symptoms: Mapping[str, str], failed: Sequence[str]
    ) -> dict[str, float]:
        """The probability of each component: that of its known faults, and of unknown ones.

        Checks of one group fail together, so n of them count as √n. Either kind of fault must fit
        what the failed checks accuse: their mean vote, n of them again as √n independent ones.
        """
        votes = _summed(v for check in failed for v in self._vote(check, symptoms[check]).items())
        voters = math.sqrt(len(failed))
        likely = _likelihoods({fault: _by_group(each) for fault, each in evidence.items()})
        shares = {
            component: likely[None] * self._unknown * vote**voters
            for component, vote in votes.items()
        }
        for fault in self._seen:
            component = self._faults[fault].component
            if component in votes:
                shares[component] += likely[fault] * votes[component] ** voters
        return _normalised(shares)

    def _causes(self, component: str, evidence: _Evidence) -> dict[str | None, float]:
        """The probability of each known fault of `component`, and of none of them under None."""
        likely = _likelihoods(
            {
                fault: sum(each.values())
                for fault, each in evidence.items()
                if fault is None or self._faults[fault].component == component
            }
        )
        likely[None] *= self._unknown
        return _normalised(likely)

    def _under(self, fault: str | None, check: str, said: str) -> float:
        """The logarithm of the probability that `check` says so under a fault, None: any."""
        seen = self._seen[fault][check] if fault is not None else Counter[str]()
        ran = seen.total()
        if not ran:
            return self._in_general(check, said)
        failures = ran - seen[PASSED]
        # What other models say is worth less than certainty, by as much as models disagree.
        fails = (failures * self._stays + seen[PASSED] * self._strays) / ran
        if not said:
            return math.log(1 - fails)
        alike = (seen[said] + _ONE_TRIAL * self._kind(check, said)) / (failures + _ONE_TRIAL)
        return math.log(fails * alike)

    def _in_general(self, check: str, said: str) -> float:
        """The same under a fault of which nothing is known."""
        if not said:
            return math.log(1 - self._failing)
        return math.log(self._failing * self._kind(check, said))

    def _kind(self, check: str, said: str) -> float:
        """The probability of that symptom among the failures of `check`."""
        seen = self._overall[check]
        failures = seen.total() - seen[PASSED]
        kinds = len(seen.keys() - {PASSED}) + 1
        return (seen[said] + 1 / kinds) / (failures + 1)

    def _vote(self, check: str, said: str) -> dict[str, float]:
        """Whom the accusation of a failed check really means: component → probability."""
        said_of = accused(said)
        meant = self._meant.get((check, said_of), {})
        return _normalised({**meant, said_of: meant.get(said_of, 0.0) + _ONE_TRIAL})


def _by_group(weights: Mapping[str, float]) -> float:
    """The sum over checks, each group (what stands before the dot) divided by √(its checks)."""
    groups: dict[str, list[float]] = defaultdict(list)
    for check, weight in weights.items():
        groups[check.partition(".")[0]].append(weight)
    return sum(sum(each) / math.sqrt(len(each)) for each in groups.values())


def _likelihoods(logarithms: Mapping[K, float]) -> dict[K, float]:
    """Their exponentials, up to one factor that keeps them in range."""
    most = max(logarithms.values())
    return {key: math.exp(each - most) for key, each in logarithms.items()}


def _summed(shares: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for key, share in shares:
        sums[key] = sums.get(key, 0.0) + share
    return sums


def _normalised(shares: Mapping[K, float]) -> dict[K, float]:
    total = sum(shares.values())
    return {key: share / total for key, share in shares.items()}


def _share_of_failures(trials: Sequence[Trial]) -> float:
    """The probability that a check fails, over all faults: never 0 or 1."""
    said = [bool(s) for trial in trials for s in trial.symptoms.values()]
    return (sum(said) + 0.5) / (len(said) + 1)


def _agreement(trials: Sequence[Trial], failing: float) -> tuple[float, float]:
    """P(fails in one model | fails in another), and P(fails in one | passes in another).

    Counted over all pairs of models that one fault was tried in; with none, a trial is worth one
    observation beside the general share of failures.
    """
    by_fault: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_fault[trial.fault].append(trial)
    pairs: Counter[tuple[bool, bool]] = Counter()
    for tried in by_fault.values():
        for here in tried:
            for there in tried:
                if here.host != there.host:
                    for check in here.symptoms.keys() & there.symptoms.keys():
                        pairs[bool(here.symptoms[check]), bool(there.symptoms[check])] += 1
    stays = (pairs[True, True] + 1) / (pairs[True, True] + pairs[True, False] + 1 + failing)
    strays = (pairs[False, True] + failing) / (pairs[False, True] + pairs[False, False] + 1)
    return stays, strays
