"""Relations that are seen in logits alone: causality, batch, order, precision."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from theodolite.fixtures.subject.backends import attention_switches
from theodolite.fixtures.subject.switches import NO_DROPOUT
from theodolite.properties.scripts.relation import Case, Cases, Relation, same, sequences
from theodolite.properties.scripts.scene import Scene


def _later(scene: Scene) -> Iterator[Case]:
    for ids in scene.sequences(2):
        for cut in dict.fromkeys((len(ids) - 1, len(ids) // 2, 1)):
            changed = ids[:cut] + [scene.other(token) for token in ids[cut:]]
            yield {"ids": [ids], "changed": [changed], "cut": cut}


def _earlier(scene: Scene) -> Iterator[Case]:
    for ids in scene.sequences(2):
        for token in (0, len(ids) - 2):
            changed = [*ids]
            changed[token] = scene.other(ids[token])
            yield {"ids": [ids], "changed": [changed], "token": token}


def _cuts(scene: Scene) -> Iterator[Case]:
    for ids in scene.sequences(2):
        for cut in dict.fromkeys((1, len(ids) // 2, len(ids) - 1)):
            if cut >= scene.subject.shortest:
                yield {"ids": [ids], "cut": cut}


def rows_of(scene: Scene) -> Iterator[Case]:
    """Two rows, and the same with one of them changed."""
    for ids in scene.sequences(1):
        for kept in (0, 1):
            rows = [[scene.other(token) for token in ids], ids]
            changed = [[scene.other(token) for token in row] for row in rows]
            changed[kept] = rows[kept]
            yield {"ids": rows, "changed": changed, "kept": kept}


def _embedding(scene: Scene) -> Iterator[Case]:
    for ids in scene.sequences(2):
        yield {"ids": [ids], "embedding": scene.embedding}


def _swapped(scene: Scene) -> Iterator[Case]:
    for ids in scene.sequences(3):
        yield {"ids": [ids], "swapped": [[ids[1], ids[0], *ids[2:]]]}


def _backends(scene: Scene) -> Iterator[Case]:
    for switch in islice(attention_switches(scene.subject.model), 1):
        for ids in scene.sequences(2) if switch.lines else ():
            yield {"ids": [ids], "switch": "\n".join(switch.lines)}


def _unmoved_by(change: str, says: str, cases: Cases, views: tuple[str, ...] = ()) -> Relation:
    """A relation whose model is changed in a way that must leave the logits as they were."""
    body = f"ids = torch.tensor($ids)\nplain = logits(ids)\n{change}\n"
    return Relation(body + same("plain", "logits(ids)", says), cases, views=views, fresh=True)


FUTURE = Relation(
    "ids, changed = torch.tensor($ids), torch.tensor($changed)\n"
    + same(
        "logits(changed)[:, :$cut]",
        "logits(ids)[:, :$cut]",
        "later tokens change earlier logits",
        bound="$LEAK",
    ),
    _later,
)
PREFIX = Relation(
    "ids = torch.tensor($ids)\n"
    + same(
        "logits(ids[:, :$cut])",
        "logits(ids)[:, :$cut]",
        "the logits of the beginning change when the text goes on",
    ),
    _cuts,
)
GRADIENT = Relation(
    """
def keep(module, given, output):
    keep.x = output.detach().requires_grad_()
    return keep.x.clone()

model.get_submodule("$embedding").register_forward_hook(keep)
(gradient,) = torch.autograd.grad(logits(torch.tensor($ids))[0, 0, 0], keep.x)
measured, bound = gradient[0, 1:].abs().max().item(), $GRADIENT * gradient.abs().max().item()
assert measured <= bound, f"later tokens have a gradient of {measured:.3g} for the first logits"
""",
    _embedding,
    gradient=True,
    fresh=True,
)
PAST = Relation(
    """
ids, changed = torch.tensor($ids), torch.tensor($changed)  # token $token is another one
moved = (logits(changed) - logits(ids))[:, -1].abs().max().item()
assert moved > 0, "an earlier token does not change the last logits"
""",
    _earlier,
)
ROWS = Relation(
    "ids, changed = torch.tensor($ids), torch.tensor($changed)\n"
    + same(
        "logits(changed)[$kept]",
        "logits(ids)[$kept]",
        "another row changes the logits of row $kept",
        bound="$LEAK",
    ),
    rows_of,
)
ALONE = Relation(
    "ids = torch.tensor($ids)\n"
    + same("logits(ids[:1])", "logits(ids)[:1]", "a row gives other logits alone"),
    rows_of,
)
ROW_ORDER = Relation(
    "ids = torch.tensor($ids)\n"
    + same("logits(ids.flip(0)).flip(0)", "logits(ids)", "the order of rows changes their logits"),
    rows_of,
)
CONSTANT = Relation(
    "ids = torch.tensor($ids).expand(-1, $length)  # one token repeated\n"
    + same("logits(ids)[:, 1:]", "logits(ids)[:, :1]", "positions of one repeated token differ"),
    lambda scene: (
        {"ids": [[token]], "length": length} for length in scene.lengths(2) for token in (0, 1)
    ),
)
ORDER = Relation(
    """
ids, swapped = torch.tensor($ids), torch.tensor($swapped)
left, right = logits(swapped)[:, -1], logits(ids)[:, -1]
moved, least = (left - right).abs().max().item(), $LEAK * right.std().item()
assert moved > least, f"swapping the first two tokens moves the last logits by {moved:.3g} only"
""",
    _swapped,
)
PRECISE = _unmoved_by("model.double()", "float32 is far from float64", sequences(1))
BACKENDS = _unmoved_by(
    "$switch",
    "another attention backend gives other logits",
    _backends,
    views=("sharpened",),
)
MODES = _unmoved_by(
    NO_DROPOUT + "model.train()", "train mode without dropout gives other logits", sequences(2)
)
NEXT_LEARNED = Relation(
    """
optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
best = 9.0
for step in range(100):  # a language in which token t is always followed by t + 1, of eight
    ids = (torch.randint(8, (16, 1)) + torch.arange($length)) % 8
    scores = logits(ids)[:, :-1].flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(scores, ids[:, 1:].flatten())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    best = min(best, loss.item())
assert best < $LEARNT * torch.tensor(8.0).log(), f"it does not learn to count: loss {best:.3g}"
""",
    lambda scene: [{"length": min(9, scene.subject.length)}],
    gradient=True,
    views=("as given",),
    fresh=True,
)

OUTPUTS: dict[str, list[Relation]] = {
    "causality.perturb": [FUTURE],
    "causality.shapes": [FUTURE],
    "causality.prefix": [PREFIX],
    "causality.gradient": [GRADIENT],
    "causality.past": [PAST],
    "training.leak": [FUTURE],
    "training.smoke": [NEXT_LEARNED],
    "batch.independence": [ROWS, ALONE],
    "batch.order": [ROW_ORDER, ROWS],
    "positions.constant_sequence": [CONSTANT],
    "positions.order_matters": [ORDER],
    "precision.native": [PRECISE],
    "backend.agree": [BACKENDS],
    "backend.modes": [MODES],
}
