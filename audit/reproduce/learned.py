"""Relations of loss, gradients, ties and initialisation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from theodolite.reproduce.relation import Relation, once, sequences
from theodolite.reproduce.scene import Scene

Case = Mapping[str, object]

_ENTROPY = "torch.nn.functional.cross_entropy"
_SHIFTS = {
    "next": "{e}(scores.flatten(0, 1), targets.flatten(){more})",
    "ids": "{e}(scores[:, :-1].flatten(0, 1), targets[:, 1:].flatten(){more})",
}


def _losses(scene: Scene) -> Iterator[Case]:
    if scene.loss_pick is None:
        return
    declared = scene.subject.declarations.get("targets")
    config = getattr(scene.subject.model, "config", None)
    library = hasattr(config, "to_dict") and scene.subject.targets == "labels"
    shifts = [str(declared)] if declared else ["ids"] if library else ["next", "ids"]
    index = scene.subject.declarations.get("ignore_index")
    for ids in scene.sequences(4):
        for ignored in (-100, -1) if index is None else (index,):
            targets = scene.mixed(len(ids), seed=9)
            short = [*scene.mixed(2, seed=8), *[ignored] * (len(ids) - 2)]
            plain = [_SHIFTS[shift].format(e=_ENTROPY, more="") for shift in shifts]
            counted = [
                _SHIFTS[shift].format(e=_ENTROPY, more=f", ignore_index={ignored}")
                for shift in shifts
            ]
            yield {
                "ids": [ids],
                "targets": [targets],
                "rows": [ids, ids[::-1]],
                "ragged": [targets, short],
                "call": f"model({scene.given.replace(f', {scene.subject.targets}=ids', '')}, "
                f"{scene.subject.targets}=targets){scene.loss_pick}",
                "due": ", ".join(plain),
                "counted": ", ".join(counted),
                "ignored": ignored,
            }


def _parameters(scene: Scene) -> Iterator[Case]:
    names = [n for n in str(scene.check.where.get("parameter", "")).split(", ") if n]
    for ids in scene.sequences(3) if names else ():
        yield {"ids": [ids, ids[::-1]], "names": names}


def _weights(scene: Scene) -> Iterator[Case]:
    for weight in str(scene.check.where.get("weight", "")).split(", "):
        if weight.startswith("model"):
            yield {"weight": weight}


def _tied(scene: Scene) -> Iterator[Case]:
    groups = str(scene.check.where.get("tied", "")).split(", ")
    pairs = [group.split("=")[:2] for group in groups if "=" in group]
    if not pairs and scene.embedding is not None and scene.head is not None:
        pairs = [[f"{scene.embedding}.weight", f"{scene.head}.weight"]]
    for one, other in pairs:
        yield {"one": one, "other": other}


def _builds(scene: Scene) -> Iterator[Case]:
    for ids in scene.sequences(1):
        yield {"build": scene.build, "ids": [ids]}


LOSS = Relation(
    """
ids, targets, scores = torch.tensor($ids), torch.tensor($targets), logits(torch.tensor($ids))
loss, due = $call.item(), [e.item() for e in ($due,)]
measured, bound = min(abs(loss - each) for each in due), 1e-4
assert measured <= bound, f"the loss is {loss:.4g}, the cross-entropy of its logits {due}"
""",
    _losses,
)
IGNORED = Relation(
    """
ids, targets = torch.tensor($rows), torch.tensor($ragged)  # $ignored: not to be counted
scores = logits(ids)
loss, due = $call.item(), [e.item() for e in ($counted,)]
measured, bound = min(abs(loss - each) for each in due), 1e-4
assert measured <= bound, f"the loss is {loss:.4g}, the mean over tokens that count {due}"
""",
    _losses,
)
INITIAL = Relation(
    """
scores = logits(torch.arange($vocabulary)[:, None].expand(-1, $length))
loss = (scores.logsumexp(-1) - scores.mean(-1)).mean().item()  # of targets drawn at random
measured, bound = loss, $bound
assert measured <= bound, f"the first loss is {loss:.3g}; a guess costs ln $vocabulary = $guess"
""",
    lambda scene: [
        {
            "vocabulary": scene.subject.vocabulary,
            "length": scene.lengths(1)[0],
            "bound": f"{math.log(scene.subject.vocabulary) + 1:.3f}",
            "guess": f"{math.log(scene.subject.vocabulary):.3f}",
        }
    ],
    views=("as given",),
)
DEAD = Relation(
    """
ids, named = torch.tensor($ids), dict(model.named_parameters())
loss = torch.nn.functional.cross_entropy(logits(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
loss.backward()
largest = max(p.grad.abs().max().item() for p in named.values() if p.grad is not None)
dead = [n for n in $names if named[n].grad is None or named[n].grad.abs().max() < 1e-6 * largest]
assert not dead, f"no gradient reaches {dead}"
""",
    _parameters,
    gradient=True,
    fresh=True,
)
NOT_FINITE = Relation(
    """
ids, named = torch.tensor($ids), dict(model.named_parameters())
loss = torch.nn.functional.cross_entropy(logits(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
loss.backward()
bad = [n for n in $names if named[n].grad is not None and not named[n].grad.isfinite().all()]
assert not bad, f"the gradient of {bad} is not finite"
""",
    _parameters,
    gradient=True,
    fresh=True,
)
SLOPE = Relation(
    """
ids, step = torch.tensor($ids), 1e-6
model.double()
weights = [p for p in model.parameters() if p.requires_grad]
ways = [torch.randn_like(p) for p in weights]
logits(ids)[..., 0].sum().backward()
slope = sum((p.grad * w).sum().item() for p, w in zip(weights, ways) if p.grad is not None)
ends = []
for side in (1, -1):
    for p, w in zip(weights, ways):
        p.data += side * step * w
    ends.append(logits(ids)[..., 0].sum().item())
    for p, w in zip(weights, ways):
        p.data -= side * step * w
found = (ends[0] - ends[1]) / (2 * step)
measured, bound = abs(slope - found), 1e-3 * abs(found)
assert measured <= bound, f"the gradient says {slope:.4g}; the logits rise by {found:.4g}"
""",
    sequences(2),
    gradient=True,
    fresh=True,
)
UNREGISTERED = Relation(
    """
weight = $weight
known = any(weight is p for p in model.parameters())
assert known, "$weight is not among model.parameters()"
""",
    _weights,
)
UNREGISTERED_MODULES = Relation(
    """
known = set(model.modules())
hidden = [
    f"{path}.{name}" for path, m in model.named_modules() for name, kept in vars(m).items()
    if isinstance(kept, (list, tuple)) and any(isinstance(k, torch.nn.Module) for k in kept)
    and not known.issuperset(k for k in kept if isinstance(k, torch.nn.Module))
]
assert not hidden, f"modules in a plain list: {hidden}: eval() and optimisers do not see them"
""",
    once(),
    views=("as given",),
)
TIED = Relation(
    """
weights = dict(model.named_parameters(remove_duplicate=False))
one, other = weights["$one"], weights["$other"]
assert one is other, "$one and $other are not one parameter"
""",
    _tied,
    views=("as given",),
)
TWICE = Relation(
    """
made = []
for _ in range(2):
    torch.manual_seed(0)
    made.append($build.state_dict())
differ = [name for name, tensor in made[0].items() if not torch.equal(tensor, made[1][name])]
assert not differ, f"built twice under one seed, these differ: {differ[:4]}"
""",
    _builds,
    fresh=True,
    views=("as given",),
)
UNFILLED = Relation(
    """
torch.use_deterministic_algorithms(True, warn_only=True)  # torch.empty then gives NaN
unfilled = [name for name, p in $build.named_parameters() if p.isnan().any()]
torch.use_deterministic_algorithms(False)
assert not unfilled, f"memory that nothing fills: {unfilled}"
""",
    _builds,
    fresh=True,
    views=("as given",),
)
SANE = Relation(
    """
wild = [name for name, p in model.named_parameters() if not p.abs().max() <= 1e6]
assert not wild, f"not initialised: {wild}"
""",
    once(),
    views=("as given",),
)
MODES = Relation(
    """
model.train()
deaf = [name for name, module in model.named_modules() if not module.training]
model.eval()
deaf += [name for name, module in model.named_modules() if module.training]
assert not deaf, f"train() and eval() do not reach {deaf}"
""",
    once(),
    fresh=True,
    views=("as given",),
)
DROPOUT = Relation(
    """
ids, model = torch.tensor($ids), $build.train()
before = not torch.equal(logits(ids), logits(ids))
model.eval()
model.train()
after = not torch.equal(logits(ids), logits(ids))
assert after == before, f"dropout acts in training: {before}; after an evaluation: {after}"
""",
    _builds,
    fresh=True,
    views=("as given",),
)
NOISE = Relation(
    """
ids = torch.tensor($ids)
model.train()
model.eval()
first, again = logits(ids), logits(ids)
measured, bound = (again - first).abs().max().item(), 0.0
assert measured <= bound, f"evaluation after training draws: logits differ by {measured:.3g}"
""",
    sequences(2),
    fresh=True,
)

LEARNED: dict[str, list[Relation]] = {
    "loss.own_logits": [LOSS],
    "loss.ignored": [IGNORED],
    "loss.initial": [INITIAL],
    "gradient.every_parameter": [DEAD, NOT_FINITE],
    "gradient.slope": [SLOPE],
    "parameters.registered": [UNREGISTERED, UNREGISTERED_MODULES],
    "parameters.sane": [SANE],
    "tying.kept": [TIED],
    "declared.tied": [TIED],
    "init.reproducible": [UNFILLED, TWICE],
    "init.train_and_eval": [MODES, NOISE, DROPOUT],
}
