"""Relations of shapes, ids and state: every input is taken, and leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.fixtures.relations.save_and_rebuild import REFILLS
from theodolite.fixtures.source.process_state import process_state, reading
from theodolite.properties.scripts.outputs import PREFIX, rows_of
from theodolite.properties.scripts.relation import Case, Relation, same, sequences
from theodolite.properties.scripts.scene import Scene


def _shapes(scene: Scene) -> Iterator[Case]:
    for length in scene.lengths(1):
        for rows in (1, 2, 3):
            yield {"ids": [scene.tokens(length, start=row) for row in range(rows)]}


def _longest(scene: Scene) -> Iterator[Case]:
    limit = scene.check.where.get("length", scene.subject.longest or 16 * scene.subject.length)
    yield {"length": limit, "vocabulary": scene.subject.vocabulary}


def _outside(scene: Scene) -> Iterator[Case]:
    for outside in dict.fromkeys((scene.check.where.get("id"), scene.subject.embedding_rows, -1)):
        if outside is not None:
            yield {"ids": [[outside, *scene.tokens(scene.lengths(1)[0])[1:]]], "id": outside}


def _settings(scene: Scene) -> Iterator[Case]:
    names = str(scene.check.where.get("changed", "")).split(", ")
    for name in names:
        if name in process_state():
            for ids in scene.sequences(1):
                yield {"ids": [ids], "name": name, "read": reading(name)}


def _growing(scene: Scene) -> Iterator[Case]:
    for where in scene.check.where:
        holder, _, name = where.rpartition(".")
        if holder:
            yield {"ids": [next(scene.sequences(1))], "name": name}


def _every(scene: Scene) -> Iterator[Case]:
    for length in scene.lengths(1):
        yield {"vocabulary": scene.subject.vocabulary, "length": length}


RUNS = Relation(
    """
try:
    logits(torch.tensor($ids))
except Exception as error:
    raise AssertionError(f"it does not take these ids: {error}") from error
""",
    _shapes,
)
REPEAT = Relation(
    """
ids = torch.tensor($ids)
first, again = logits(ids), logits(ids)
measured, bound = (again - first).abs().max().item(), 0.0
assert measured <= bound, f"the same call gives logits that differ by {measured:.3g}"
""",
    sequences(1),
)
UNTOUCHED = Relation(
    """
before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
logits(torch.tensor($ids))
touched = [n for n, tensor in model.state_dict().items() if not torch.equal(tensor, before[n])]
assert not touched, f"a forward changed {touched}"
""",
    sequences(1),
    fresh=True,
)
IDS_KEPT = Relation(
    """
ids = torch.tensor($ids)
kept = ids.clone()
logits(ids)
assert torch.equal(ids, kept), f"the ids given were {kept.tolist()} and are now {ids.tolist()}"
""",
    sequences(1),
)
DRAWS = Relation(
    """
before = torch.get_rng_state()
logits(torch.tensor($ids))
assert torch.equal(before, torch.get_rng_state()), "evaluation draws random numbers"
""",
    sequences(1),
)
REBUILT = Relation(
    """
ids = torch.tensor($ids)
expected, state = logits(ids), model.state_dict()
torch.manual_seed(1)
model = $build.eval()
model.load_state_dict(state, strict=False)
measured, bound = (logits(ids) - expected).abs().max().item(), 0.0
assert measured <= bound, f"after loading the saved weights logits differ by {measured:.3g}"
""",
    lambda scene: ({"ids": [ids], "build": scene.build} for ids in scene.sequences(1)),
    fresh=True,
)
_NAN = "torch.use_deterministic_algorithms(True, warn_only=True)  # torch.empty then gives NaN\n"
_SAME = """torch.use_deterministic_algorithms(False)
def held(m): return {**dict(m.named_parameters()), **dict(m.named_buffers())}
mine, others = held(model), held(other)
differ = [name for name in mine if not torch.equal(mine[name], others.get(name, mine[name][:0]))]
assert not differ, f"other numbers in {differ}"
"""
READ_AGAIN = Relation(
    _NAN
    + """with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    other = type(model).from_pretrained(folder).eval()
"""
    + _SAME
    + "ids, plain = torch.tensor($ids), logits(torch.tensor($ids))\nmodel = other\n"
    + same("logits(ids)", "plain", "read from its own files it gives other logits"),
    sequences(1),
    imports=("tempfile",),
    fresh=True,
)
FILLED = Relation(
    """with torch.device("meta"):
    other = $build
"""
    + _NAN
    + f"""other.to_empty(device="cpu")
for name in {REFILLS}:
    getattr(other, name, lambda: None)()
other.load_state_dict(model.state_dict())
"""
    + _SAME,
    lambda scene: [{"build": scene.build}],
    fresh=True,
)
ON_META = Relation(
    """
try:
    with torch.device("meta"):
        $build
except Exception as error:
    raise AssertionError(f"it cannot be built without memory: {error}") from error
""",
    lambda scene: [{"build": scene.build}],
)
FINITE = Relation(
    """
bad = (~torch.isfinite(logits(torch.tensor($ids)))).sum().item()
assert bad == 0, f"{bad} logits are not finite"
""",
    sequences(1),
)
PROBABILITIES = Relation(
    """
scores = logits(torch.tensor($ids)).double()
measured, least = (scores.sum(-1) - 1).abs().max().item(), scores.shape[-1] * 1.2e-7  # rounding
assert scores.min() < 0 or measured > least, "no logit is negative, and they sum to 1 everywhere"
""",
    sequences(2),
)
SEEDED = Relation(
    """
drawn = []
for seed in (1, 2):
    torch.manual_seed(seed)
    logits(torch.tensor($ids))
    drawn.append(torch.rand(4))
assert not drawn[0].equal(drawn[1]), "a forward sets the seed: the draws after it are the same"
""",
    sequences(1),
)
_SETTING = """
def setting(): return $read
before = setting()
logits(torch.tensor($ids))
assert setting() == before, f"a forward changes the $name from {before} to {setting()}"
"""
SETTING = Relation(_SETTING, _settings, gradient=True, imports=("os",))
SETTING_IN_EVALUATION = Relation(_SETTING, _settings, imports=("os",))
ENVIRONMENT = Relation(
    """
before = dict(os.environ)
logits(torch.tensor($ids))
changed = [n for n in {*before, *os.environ} if before.get(n) != os.environ.get(n)]
assert not changed, f"a forward changes the environment variables {changed}"
""",
    sequences(1),
    imports=("os",),
)
WRITES = Relation(
    """
home = os.getcwd()
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    logits(torch.tensor($ids))
    written = os.listdir(folder)
    os.chdir(home)
assert not written, f"a forward writes {written} into the working directory"
""",
    sequences(1),
    imports=("os", "tempfile"),
)
GROWS = Relation(
    """
def kept():  # by a module, its class, or the file of that
    holders = [(vars(m), vars(type(m)), type(m).forward.__globals__) for m in model.modules()]
    return next((h["$name"] for three in holders for h in three if "$name" in h), ())
def size(x):
    if torch.is_tensor(x) or not hasattr(x, "__iter__") or isinstance(x, str):
        return x.numel() if torch.is_tensor(x) else 1
    return 1 + sum(map(size, x.values() if isinstance(x, dict) else x))
sizes = []
for _ in range(4):
    logits(torch.tensor($ids))
    sizes.append(size(kept()))
assert not sizes[1] < sizes[2] < sizes[3], f"$name grows with every call: {sizes[1:]}"
""",
    _growing,
)
EVERY_ID = Relation(
    """
ids = torch.arange($vocabulary)[:, None].expand(-1, $length)  # every token
bad = (~torch.isfinite(logits(ids))).any(-1).any(-1).nonzero().flatten().tolist()
assert not bad, f"logits are not finite for the ids {bad}"
""",
    _every,
)
LONGEST = Relation(
    "ids = torch.arange($length)[None] % $vocabulary\n"
    + same(
        "logits(ids)[:, :2]",
        "logits(ids[:, :2])",
        "a text of $length tokens begins with other logits than a short one",
    ),
    _longest,
)
LONGEST_RUNS = Relation(
    """
try:
    logits(torch.arange($length)[None] % $vocabulary)
except Exception as error:
    raise AssertionError(f"it does not take $length tokens: {error}") from error
""",
    _longest,
)
LAYOUT = Relation(
    "ids = torch.tensor($ids)\n"
    + same(
        "logits(ids.t().contiguous().t())",
        "logits(ids)",
        "ids that lie otherwise in memory give other logits",
    ),
    rows_of,
)
OUTSIDE = Relation(
    """
try:
    logits(torch.tensor($ids))
except Exception:
    refused = True
else:
    refused = False
assert refused, "id $id is outside the vocabulary and is not refused"
""",
    _outside,
)
RENAMED = Relation(
    """
ids, size = torch.tensor($ids), $vocabulary
before, order = logits(ids)[..., :size], torch.arange(size)
order[-2:] = order[-2:].flip(0).clone()  # the last two tokens exchange their names
for p in model.parameters():
    if p.shape[:1] == (size,):
        p.data = p.data[order]
after = logits(order[ids])[..., :size]
measured, bound = (after - before[..., order]).abs().max().item(), $RELATION * before.std().item()
assert measured <= bound, f"renaming two tokens moves the logits by {measured:.3g}"
""",
    lambda scene: (
        {"ids": [[scene.subject.vocabulary - 1 - t for t in ids]], "vocabulary": size}
        for size in [scene.subject.vocabulary]
        for ids in scene.sequences(1)
    ),
    fresh=True,
)
STEADY: dict[str, list[Relation]] = {
    "shape.runs": [RUNS],
    "shape.layout": [LAYOUT],
    "length.shortest": [RUNS, PREFIX],
    "length.longest": [LONGEST, LONGEST_RUNS],
    "logits.finite": [FINITE],
    "logits.unnormalised": [PROBABILITIES],
    "vocabulary.finite": [EVERY_ID, FINITE],
    "vocabulary.range": [OUTSIDE],
    "vocabulary.relabelling": [RENAMED],
    "state.repeat": [REPEAT],
    "state.seed": [SEEDED],
    "state.process": [SETTING, SETTING_IN_EVALUATION, ENVIRONMENT, WRITES],
    "state.growth": [GROWS],
    "state.untouched": [UNTOUCHED, IDS_KEPT, DRAWS],
    "state.rebuilt": [REBUILT],
    "state.files": [READ_AGAIN],
    "state.meta": [ON_META, FILLED],
    "state.round_trip": [REBUILT],
}
