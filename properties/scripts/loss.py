"""Relations of the loss that a subject returns."""

from __future__ import annotations

import math
from collections.abc import Iterator

from theodolite.fixtures.errors import TheodoliteError
from theodolite.fixtures.judging.judgement import NotApplicable
from theodolite.fixtures.judging.tolerances import INITIAL_EXCESS
from theodolite.fixtures.serving.loss import COUNT, cross_entropy_source, due_pairing, plain_fit
from theodolite.fixtures.subject.convention import keywords_of
from theodolite.properties.scripts.relation import Case, Relation
from theodolite.properties.scripts.scene import Scene


def _losses(scene: Scene) -> Iterator[Case]:
    call, told = scene.loss(), scene.loss("**more")
    if call is None:
        return
    due = due_pairing(scene.subject)
    shifts = ["next", "ids"] if due is None else [due]
    index = scene.subject.declarations.get("ignore_index")
    for ids in scene.sequences(4):
        for ignored in (-100, -1) if index is None else (index,):
            targets = scene.mixed(len(ids), seed=9)
            short = [*scene.mixed(2, seed=8), *[ignored] * (len(ids) - 2)]
            counted = [cross_entropy_source(shift, ignore_index=ignored) for shift in shifts]
            yield {
                "ids": [ids],
                "targets": [targets],
                "rows": [ids, ids[::-1]],
                "ragged": [targets, short],
                "call": call,
                "told": told,
                "due": ", ".join(map(cross_entropy_source, shifts)),
                "counted": ", ".join(counted),
                "ignored": ignored,
            }


def _shift(scene: Scene) -> str | None:
    """How the subject's loss pairs logits and targets; None where that is not plain."""
    try:
        fit, _ = plain_fit(scene.subject.views.sharpened)
    except (NotApplicable, TheodoliteError):
        return None
    return fit.shift


def _ragged(scene: Scene) -> Iterator[Case]:
    shift = _shift(scene)
    for case in _losses(scene) if shift else ():
        yield {**case, "from": 1 if shift == "ids" else 0}


LOSS = Relation(
    """
ids, targets, scores = torch.tensor($ids), torch.tensor($targets), logits(torch.tensor($ids))
loss, due = $call.item(), [e.item() for e in ($due,)]
measured, bound = min(abs(loss - each) for each in due), $NATS
assert measured <= bound, f"the loss is {loss:.4g}, the logits' cross-entropy {due}"
""",
    _losses,
)
IGNORED = Relation(
    """
ids, targets = torch.tensor($rows), torch.tensor($ragged)  # $ignored: not to be counted
scores = logits(ids)
loss, due = $call.item(), [e.item() for e in ($counted,)]
measured, bound = min(abs(loss - each) for each in due), $NATS
assert measured <= bound, f"the loss is {loss:.4g}, the mean over what counts {due}"
""",
    _losses,
)
INITIAL = Relation(
    """
scores = logits(torch.arange($vocabulary)[:, None].expand(-1, $length))
loss = (scores.logsumexp(-1) - scores.mean(-1)).mean().item()  # of targets drawn at random
measured, bound = loss, $bound
assert measured <= bound, f"the first loss is {loss:.3g}; a guess costs $guess"
""",
    lambda scene: [
        {
            "vocabulary": scene.subject.vocabulary,
            "length": scene.lengths(1)[0],
            "bound": f"{math.log(scene.subject.vocabulary) + INITIAL_EXCESS:.3f}",
            "guess": f"{math.log(scene.subject.vocabulary):.3f}",
        }
    ],
    views=("as given",),
)
MORE_PADDING = Relation(
    """
ids, targets = torch.tensor($rows), torch.tensor($ragged)  # $ignored: not to be counted
less = $call.item()
ids = torch.cat([ids, ids[:, :2]], 1)
targets = torch.cat([targets, torch.full((2, 2), $ignored)], 1)
measured, bound = abs($call.item() - less), $NATS
assert measured <= bound, f"two more tokens of padding move the loss by {measured:.3g}"
""",
    _losses,
)
_SHARES = """rows, ragged = torch.tensor($rows), torch.tensor($ragged)  # $ignored: not counted
def loss(ids, targets, **more): return $told.item()
counts = (ragged[:, $from:] != $ignored).sum(1)
"""
_APART = """measured, bound = abs(parts - loss(rows, ragged)), $NATS
assert measured <= bound, f"rows alone, by their tokens, are {measured:.3g} off the batch\""""
MICRO_BATCHES = Relation(
    _SHARES
    + "share = (counts / counts.sum()).tolist()\n"
    + "parts = sum(s * loss(rows[[i]], ragged[[i]]) for i, s in enumerate(share))\n"
    + _APART,
    lambda scene: () if COUNT in keywords_of(scene.subject.model) else _ragged(scene),
)
TOLD_BATCHES = Relation(
    _SHARES
    + f"parts = sum(loss(rows[[i]], ragged[[i]], {COUNT}=counts.sum()) for i in (0, 1))\n"
    + _APART,
    lambda scene: _ragged(scene) if COUNT in keywords_of(scene.subject.model) else (),
)
TOLD = Relation(
    f"""ids, targets = torch.tensor($ids), torch.tensor($targets)
def loss(**more): return $told.item()
twice = torch.tensor(2 * targets[:, $from:].numel())
measured, bound = abs(loss({COUNT}=twice) - loss() / 2), $NATS
assert measured <= bound, f"told of twice the tokens, it is {{measured:.3g}} off its half\"""",
    _ragged,
)

LOST: dict[str, list[Relation]] = {
    "loss.own_logits": [LOSS],
    "loss.ignored": [IGNORED],
    "loss.initial": [INITIAL],
    "loss.padding": [MORE_PADDING],
    "loss.accumulation": [MICRO_BATCHES, TOLD_BATCHES],
    "loss.count": [TOLD],
}
