"""Whether enough was judged for a verdict, and why not.

A pass says that a subject was judged, not merely that nothing was found. Too little was judged

- where a check was planned and not carried out (its process ended, memory or time ran out): nobody
  knows what it would have said;
- where nothing of a group that every map from ids to logits has could be judged: whether it runs
  (shape), gives finite logits (logits), and sees no later token (causality);
- where more checks were prevented ("not judged: ...") than judged. A check that a subject has
  nothing for (no cache, no experts) was not prevented.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theodolite.report import Check

ALWAYS = ("shape", "logits", "causality")
"""Groups of checks that need nothing but a forward from ids to logits."""

PREVENTED = "not judged: "
"""How the message of a check begins that applies, and could not be judged."""

_JUDGED = ("passed", "failed", "expected_failure")
_SHOWN = 3


def is_judged(check: Check) -> bool:
    """Whether the check came to a yes or a no."""
    return check.outcome in _JUDGED


CAPABILITIES: dict[str, tuple[str, ...]] = {
    "forward": ("shape", "logits", "causality"),
    "attention": ("inside",),
    "gradients": ("gradient",),
    "training": ("training",),
    "loss": ("loss",),
    "generation": ("generation",),
    "cache": ("cache",),
    "padding": ("padding",),
    "packing": ("packing",),
}
"""What a subject may offer → the groups of the checks that judge it."""

_OF_ANY = frozenset({"loss.initial"})
"""Checks of these groups that need nothing of the kind: they judge logits."""


def what_was_judged(checks: Sequence[Check]) -> dict[str, bool | str]:
    """What of a subject was judged: True, "not offered", "not judged" or "not asked"."""
    found: dict[str, bool | str] = {}
    for name, groups in CAPABILITIES.items():
        members = [c for c in checks if c.id.partition(".")[0] in groups and c.id not in _OF_ANY]
        if not members:
            found[name] = "not asked"
        elif any(map(is_judged, members)):
            found[name] = True
        else:
            prevented = any(c.outcome == "error" or _is_prevented(c) for c in members)
            found[name] = "not judged" if prevented else "not offered"
    return found


def incompleteness(checks: Sequence[Check]) -> str | None:
    """Why too little of a subject was judged for a pass, as a sentence; None where enough was."""
    ended = [check.id for check in checks if check.outcome == "error"]
    if ended:
        more = f" and {len(ended) - _SHOWN} more" if len(ended) > _SHOWN else ""
        return (
            f"{len(ended)} of {len(checks)} checks could not be carried out: "
            f"{', '.join(ended[:_SHOWN])}{more}."
        )
    judged = sum(map(is_judged, checks))
    prevented = [check for check in checks if _is_prevented(check)]
    if len(prevented) > judged:
        reason, _ = Counter(check.message for check in prevented).most_common(1)[0]
        return (
            f"Only {judged} of the {judged + len(prevented)} checks that apply could be judged; "
            f"most often: {reason.removeprefix(PREVENTED).rstrip('.')}."
        )
    for group in ALWAYS:
        members = [check for check in checks if check.id.partition(".")[0] == group]
        if members and not any(map(is_judged, members)):
            return f"Nothing of {group} could be judged: {members[0].message.rstrip('.')}."
    return None


def _is_prevented(check: Check) -> bool:
    return check.outcome == "not_applicable" and check.message.startswith(PREVENTED)
