"""Relations of gradients, registration, ties and initialisation."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.relations.checkpointing import switches
from theodolite.properties.scripts.relation import Case, Relation, once, sequences
from theodolite.properties.scripts.scene import Scene


def _parameters(scene: Scene) -> Iterator[Case]:
    where = scene.check.where
    names = [n for n in str(where.get("parameter", "")).split(", ") if n]
    if "router" in where:
        names = [f"{where.get('module', '')}.{where['router']}".lstrip(".")]
    for ids in scene.sequences(3) if names else ():
        yield {"ids": [ids, ids[::-1]], "names": names}


def _counts(scene: Scene) -> Iterator[Case]:
    declared = scene.subject.declarations.get("parameters")
    predicted = anatomy_of(scene.subject).parameters.predicted
    if declared is not None:
        yield {"than": "==", "needed": declared}
    if predicted:
        yield {"than": ">=", "needed": sum(predicted.values())}


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


def _checkpointed(scene: Scene) -> Iterator[Case]:
    """How the script turns checkpointing on: a library's method, flags, or an argument."""
    name = scene.check.where.get("switch", "")
    for switch in switches(scene.subject.model):
        if switch.name == name:
            more = ", ".join(f"{key}={value}" for key, value in switch.extra.items())
            case = {"turn": "\n".join(switch.lines), "more": more, "with": more and f", {more}"}
            yield from ({**case, "ids": [ids]} for ids in scene.sequences(3))


def _table(scene: Scene) -> Iterator[Case]:
    """A table of positions, and a text as short as shows it, or as long as the model takes."""
    table = str(scene.check.where.get("table", ""))
    longest = scene.subject.longest or 64
    for length in dict.fromkeys((3, 5, longest)):
        if table and length <= longest:
            yield {"table": table, "ids": [scene.tokens(length)]}


_BACKWARD = """ids, named = torch.tensor($ids), dict(model.named_parameters())
loss = torch.nn.functional.cross_entropy(logits(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
loss.backward()
"""

DEAD = Relation(
    _BACKWARD
    + """sizes = {n: 0.0 if p.grad is None else p.grad.abs().max().item() for n, p in named.items()}
median = torch.tensor(list(sizes.values())).median()
dead = [n for n in $names if sizes[n] <= $NO_GRADIENT * median]
assert not dead, f"no gradient reaches {dead}"
""",
    _parameters,
    gradient=True,
    fresh=True,
)
ROWS_LEARN = Relation(
    """
ids, table = torch.tensor($ids), model.get_parameter("$table")
out = logits(ids)
rows = torch.autograd.grad((out * torch.randn_like(out)).sum(), table)[0].flatten(0, -2)
taught, wanted = (rows.abs().amax(-1) > 0).sum().item(), ids.shape[1]
assert taught == wanted, f"{wanted} positions teach {taught} rows of $table"
""",
    _table,
    gradient=True,
    views=("as given",),
)
NOT_FINITE = Relation(
    _BACKWARD
    + """gradients = {n: named[n].grad for n in $names if named[n].grad is not None}
bad = [n for n, gradient in gradients.items() if not gradient.isfinite().all()]
assert not bad, f"the gradient of {bad} is not finite"
""",
    _parameters,
    gradient=True,
    fresh=True,
)
SLOPE = Relation(
    """
ids = torch.tensor($ids)
model.double()
weights = [p for p in model.parameters() if p.requires_grad]
ways = [torch.randn_like(p) * p.detach().square().mean().sqrt() for p in weights]
def value(): return logits(ids)[..., 0].double().sum()
value().backward()
parts = [(p.grad * way).sum().item() for p, way in zip(weights, ways) if p.grad is not None]
torch.set_grad_enabled(False)
def at(step):
    [p.add_(step * way) for p, way in zip(weights, ways)]
    found = value().item()
    [p.sub_(step * way) for p, way in zip(weights, ways)]
    return found
near, far = ((at(h) - at(-h)) / (2 * h) for h in (2e-3, 4e-3))
scale = max(sum(part**2 for part in parts) ** 0.5, abs(near))
measured, bound = abs(sum(parts) - near), 3 * abs(near - far) + $SLOPE * scale
assert measured <= bound, f"the gradient says {sum(parts):.4g}; the logits rise by {near:.4g}"
""",
    lambda scene: ({"ids": [ids, ids[::-1]]} for ids in scene.sequences(2)),
    gradient=True,
    fresh=True,
)
CHECKPOINTED = Relation(
    """
ids = torch.tensor($ids)
def gradients(**more):
    torch.manual_seed(0)  # the same dropout
    model.zero_grad()
    logits(ids, **more).square().sum().backward()
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
model.train()
plain = gradients()
$turn
again = gradients($more)
largest = max(g.abs().max() for g in plain.values())  # where keys have a bias, it has none
off = {n: (again.get(n, 0 * g) - g).abs().max() / (g.abs().max() + 0.01 * largest)
       for n, g in plain.items()}
measured, bound = max(off.values()).item(), $RELATION
assert measured <= bound, f"{max(off, key=off.get)} has another gradient, by {measured:.3g} of it"
""",
    _checkpointed,
    gradient=True,
    fresh=True,
)
CHECKPOINT_REFUSED = Relation(
    """
model.train()
$turn
scores = logits(torch.tensor($ids)$with)
try:
    scores.sum().backward()
except torch.utils.checkpoint.CheckpointError as error:
    raise AssertionError(f"backward computes something else again: {error}") from error
""",
    _checkpointed,
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
FEWER = Relation(
    """
count = sum(p.numel() for p in model.parameters())
assert count $than $needed, f"{count} parameters; the parts that run need $needed"
""",
    _counts,
    views=("as given",),
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
    once,
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
wild = [name for name, p in model.named_parameters() if not p.abs().max() <= $SANE]
assert not wild, f"not initialised: {wild}"
""",
    once,
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
    once,
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
    "positions.rows": [ROWS_LEARN],
    "gradient.every_parameter": [DEAD, NOT_FINITE],
    "gradient.slope": [SLOPE],
    "gradient.checkpointing": [CHECKPOINTED, CHECKPOINT_REFUSED],
    "parameters.registered": [UNREGISTERED, UNREGISTERED_MODULES],
    "parameters.formula": [UNREGISTERED_MODULES, FEWER],
    "experts.router": [DEAD],
    "parameters.sane": [SANE],
    "tying.kept": [TIED],
    "declared.tied": [TIED],
    "init.reproducible": [UNFILLED, TWICE],
    "init.train_and_eval": [MODES, NOISE, DROPOUT],
}
