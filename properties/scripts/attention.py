"""Relations of what attention multiplies: weights, scores, heads.

Their scripts keep every call of a torch function, and find attention among them by its shapes: the
product of queries and keys, and the weights that meet the values, are T by T.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from theodolite.fixtures.anatomy.head_reach import reach_of
from theodolite.fixtures.anatomy.heads import why_neighbours
from theodolite.fixtures.errors import Unknown
from theodolite.properties.scripts.outputs import FUTURE
from theodolite.properties.scripts.relation import Case, Cases, Relation, of_cause
from theodolite.properties.scripts.scene import Scene

_WATCH = """
class Watch(torch.overrides.TorchFunctionMode):  # keeps every call of a torch function
    def __torch_function__(self, function, types, args=(), kwargs=None):
        calls.append((function.__name__, args, kwargs or {}, function(*args, **(kwargs or {}))))
        return calls[-1][3]

calls, ids, T = [], $ids, $length
"""

_SQUARE = 'if "matmul" in name and {}.shape[-2:] == (T, T)'
_EXPLICIT = {
    "qk": "q, k = [(a[0], a[1].mT) for name, a, _, r in calls " + _SQUARE.format("r") + "]",
    "values": "v = [a[1] for name, a, _, r in calls " + _SQUARE.format("a[0]") + "]",
    "output": "out = [r for name, a, _, r in calls " + _SQUARE.format("a[0]") + "]",
    "weights": "w = [a[0] for name, a, _, r in calls " + _SQUARE.format("a[0]") + "]",
    "product": "q, product = [(a[0], r) for name, a, _, r in calls " + _SQUARE.format("r") + "]",
}
_FUSED_CALL = 'if name == "scaled_dot_product_attention"]'
_FUSED = {
    "qk": "q, k = [a[:2] for name, a, _, r in calls " + _FUSED_CALL,
    "values": "v = [a[2] for name, a, _, r in calls " + _FUSED_CALL,
    "output": "out = [r for name, a, _, r in calls " + _FUSED_CALL,
    "weights": None,
    "product": None,
}
_HOOK = """given, projection = [], model.get_submodule("$projection")
projection.register_forward_pre_hook(lambda module, args: given.append(args[0]))
"""
_WEIGHTS = "$weights[$layer]\n"
QK = "$qk[$layer]\n"
VALUES = "$values[$layer]\n"
_OUTPUT = "$output[$layer]\n"


def _both(case: Case) -> Iterator[Case]:
    """Where explicit attention has what is looked for, and where the fused operator has."""
    yield {**case, **_EXPLICIT}
    yield {**case, **_FUSED}


def _random(scene: Scene) -> Iterator[Case]:
    """Two different sequences, no shorter than tells T from other axes."""
    for length in (3, 5, 7, 13):
        if length in scene.lengths(3):
            rows = [scene.tokens(length), scene.tokens(length, start=length)]
            case = {**_place(scene), "ids": f"torch.tensor({rows})", "length": length}
            yield from _both(case)


def constant(scene: Scene) -> Iterator[Case]:
    """One token repeated."""
    longest = min(scene.subject.longest or 40, 40)
    for length in (3, 5, 7, 13, longest):
        if length <= (scene.subject.longest or length):
            case = {**_place(scene), "ids": f"torch.tensor([[1] * {length}])", "length": length}
            yield from _both(case)


def _place(scene: Scene) -> dict[str, object]:
    where = scene.check.where
    return {
        "layer": scene.layer,
        "head": where.get("head", 0),
        "other": where.get("other head", 1),
    }


def _scale(scene: Scene) -> Iterator[Case]:
    declared = scene.subject.declarations.get("scale")
    if declared is not None and not isinstance(declared, int | float):
        return
    for case in _random(scene):
        yield {
            **case,
            "wanted": "q.shape[-1] ** -0.5" if declared is None else repr(float(declared)),
            "said": "1/√d_head" if declared is None else "the declared scale",
        }


def _window(scene: Scene) -> Iterator[Case]:
    """A sequence longer than the window or chunk that the layer is declared to have."""
    for name, within in (("window", "i - j < {}"), ("chunk", "i // {0} == j // {0}")):
        width = scene.subject.declarations.get(name)
        if isinstance(width, list | tuple):
            width = width[scene.layer] if scene.layer < len(width) else None
        if not isinstance(width, int):
            continue
        length = min(2 * width + 1, scene.subject.longest or 2 * width + 1)
        case = {**_place(scene), "ids": f"torch.tensor([{scene.mixed(length)}])", "length": length}
        yield {**case, **_EXPLICIT, "within": within.format(width), "said": f"{name} of {width}"}


def _projection(scene: Scene) -> Iterator[Case]:
    path = scene.check.where.get("projection")
    paths = [str(path)] if path else []
    if scene.module is not None and not paths:
        attention = scene.subject.model.get_submodule(scene.module)
        linear = [name for name, m in attention.named_modules() if isinstance(m, nn.Linear)]
        paths = [f"{scene.module}.{name}" for name in linear[-1:]]
    for case in _random(scene):
        for each in paths:
            yield {**case, "projection": each}


def _idle(scene: Scene) -> Iterator[Case]:
    modules = dict(scene.subject.model.named_modules())
    for key in ("idle", "never read"):
        for name in str(scene.check.where.get(key, "")).split(", "):
            path = name.removeprefix("a part of ")
            path = f"{_row(scene)}.{path}" if path.isdigit() else path
            path = path if path in modules else path.rpartition(".")[0]
            if path in modules and path:
                yield {"idle": path, "ids": [scene.tokens(scene.lengths(2)[0])]}


def _row(scene: Scene) -> str:
    """Path of the list of layers."""
    lists = [n for n, m in scene.subject.model.named_modules() if isinstance(m, nn.ModuleList)]
    return lists[0] if lists else ""


_KINDS = {"groups.queries": ("query",), "groups.members": ("key", "value")}


def _reaches(*kinds: str) -> Cases:
    """Where the channels of each head of these kinds stand, and what each must change."""

    def cases(scene: Scene) -> Iterator[Case]:
        view = scene.subject.views.sharpened
        found = reach_of(view)
        for reach in () if isinstance(found, Unknown) else found:
            if reach.layer != scene.layer or reach.kind not in kinds:
                continue
            linear = isinstance(scene.subject.model.get_submodule(reach.projection), nn.Linear)
            rows = [_slice(channels.tolist(), rows=linear) for channels in reach.channels]
            total = reach.reached.shape[1]
            size = total // reach.count
            groups = [list(range(i * size, i * size + size)) for i in range(reach.count)]
            due = f"all(served) and sorted(sum(served, [])) == [*range({total})]"
            if reach.kind != "query" and why_neighbours(view, reach.module):
                due = f"served == {groups}"
            for case in _random(scene) if len(reach.heads) == reach.count else ():
                place = {"projection": reach.projection, "rows": ", ".join(rows), "due": due}
                yield {**case, **place}

    return cases


def _slice(places: list[int], *, rows: bool) -> str:
    """An index of a weight's rows, or of its columns, as source."""
    start, end = places[0], places[-1] + 1
    found = f"slice({start}, {end})" if places == [*range(start, end)] else str(places)
    return found if rows else f"(slice(None), {found})"


def _twice(scene: Scene) -> Iterator[Case]:
    one, _, other = str(scene.check.where.get("heads", "")).partition(" and ")
    return ({**case, "one": one, "two": other} for case in _projection(scene))


def _tables(scene: Scene) -> Iterator[Case]:
    table = scene.check.where.get("table")
    return ({**case, "table": table} for case in _random(scene))


def watching(body: str, cases: Cases, hooks: str = "", views: tuple[str, ...] = ()) -> Relation:
    """A relation whose body follows one watched forward on `ids`, T long, behind `hooks`."""
    run = "with Watch():\n    logits(ids)\n"
    return Relation(_WATCH + hooks + run + body, cases, views=views, fresh=bool(hooks))


SUMS = watching(
    _WEIGHTS
    + """measured = (w.double().sum(-1) - 1).abs().max().item()
bound = T * torch.finfo(w.dtype).eps  # T roundings of shares of one
assert measured <= bound, f"rows of weights are off 1 by {measured:.3g}\"""",
    _random,
)
LATER_WEIGHTS = watching(
    _WEIGHTS
    + """measured, bound = w.triu(1).abs().max().item(), 0.0
assert measured <= bound, f"a later key has a weight of {measured:.3g}\"""",
    _random,
)
OVER_KEYS = watching(
    """scores, w = [
    (a[0], r) for name, a, _, r in calls if name == "softmax" and r.shape[-2:] == (T, T)
][$layer]
measured = (scores.double().softmax(-1) - w).abs().nan_to_num(1.0).max().item()
bound = T * torch.finfo(w.dtype).eps  # T roundings of shares of one
assert measured <= bound, f"softmax is not over the keys: weights are off by {measured:.3g}\"""",
    _random,
)
SCALE = watching(
    """$product[$layer]
scores = [a[0] for name, a, _, r in calls if name == "softmax" and r.shape[-2:] == (T, T)][$layer]
one, other = (x[..., -1, 0] - x[..., -1, 1] for x in (scores, product))
scale, wanted = (one / other).median().item(), $wanted
measured, bound = abs(scale / wanted - 1), $SCALED
assert measured <= bound, f"softmax gets q·k times {scale:.4g}; $said is {wanted:.4g}\"""",
    _scale,
)
FUSED_SCALE = watching(
    """q, scale = [(a[0], g.get("scale")) for name, a, g, _ in calls if "scaled" in name][$layer]
scale, wanted = q.shape[-1] ** -0.5 if scale is None else scale, $wanted
measured, bound = abs(scale / wanted - 1), $SCALED
assert measured <= bound, f"softmax gets q·k times {scale:.4g}; $said is {wanted:.4g}\"""",
    _scale,
)
JOINED = watching(
    _OUTPUT
    + """joined = out.transpose(1, 2).flatten(2)
measured = (given[-1].reshape(joined.shape) - joined).abs().max().item()
bound = $EQUAL * joined.abs().max().item()
assert measured <= bound, "the output projection gets scrambled heads\"""",
    _projection,
    hooks=_HOOK,
)
TWICE = watching(
    _OUTPUT
    + """parts = given[-1].reshape(-1, out.shape[1], out.shape[3])
measured, least = (parts[:, $one] - parts[:, $two]).abs().max().item(), $EQUAL * parts.abs().max()
assert measured > least, "heads $one and $two hand on the same numbers, though they differ\"""",
    of_cause("heads-handed-on-twice")(_twice),
    hooks=_HOOK,
)
SERVED = Relation(
    _WATCH
    + """def heads():
    calls.clear()
    with Watch():
        logits(ids)
    $output[$layer]
    return out.unbind(1)
plain, weight, served = heads(), model.get_submodule("$projection").weight, []
for rows in ($rows):  # of each head
    weight[rows] *= -1
    served.append([i for i, (a, b) in enumerate(zip(heads(), plain)) if not a.allclose(b)])
    weight[rows] *= -1
assert $due, f"each head of $projection changes these query heads: {served}\"""",
    lambda scene: _reaches(*_KINDS[scene.check.id])(scene),
    fresh=True,
)
LOOKED_UP = watching(
    """table = model.get_parameter("$table")
read = [x for _, a, _, _ in calls if any(y is table for y in a) for x in a if x is not table]
rows = next(x for x in read if torch.is_tensor(x)).reshape(-1, T)
assert (rows.diff(dim=-1) == 1).all(-1).any(), f"positions read the rows {rows[0].tolist()}\"""",
    _tables,
)
ALIKE = watching(
    QK
    + """s = q @ k.mT
measured = (s[:, $head] - s[:, $other]).abs().max().item()
assert measured > $EQUAL, f"heads $head and $other have the same scores, up to {measured:.3g}\"""",
    _random,
)
GROUPS = watching(
    QK
    + VALUES
    + """heads = range(q.shape[1])
keys, values = [[[torch.equal(x[:, i], x[:, j]) for i in heads] for j in heads] for x in (k, v)]
assert keys == values, "query heads that share keys do not share the values of those keys\"""",
    of_cause("groups-differ")(_random),
)
NEIGHBOURS = watching(
    QK
    + """heads = range(q.shape[1])
keys = [[torch.equal(k[:, i], k[:, j]) for i in heads] for j in heads]
n = sum(keys[0])
assert keys == [[i // n == j // n for i in heads] for j in heads], "groups of heads take turns\"""",
    of_cause("groups-tiled")(_random),
)
WINDOW = watching(
    _WEIGHTS
    + """i, j = torch.arange(T)[:, None], torch.arange(T)
wrong = ((w > 0) != ((j <= i) & ($within))).nonzero()
assert not len(wrong), f"sight differs from a $said at {wrong[0].tolist()}\"""",
    _window,
)
CALLED = Relation(
    """
ran = []
model.get_submodule("$idle").register_forward_hook(lambda *_: ran.append(1))
logits(torch.tensor($ids))
assert ran, "$idle is never run"
""",
    _idle,
    fresh=True,
)
ITSELF = watching(
    _WEIGHTS
    + """own = w.diagonal(dim1=-2, dim2=-1)[..., 1:].max().item()
assert own > 0, "no query but the first gives weight to the key of its own position\"""",
    _random,
)

ATTENDED: dict[str, list[Relation]] = {
    "inside.rows_sum_to_one": [SUMS, OVER_KEYS],
    "inside.no_weight_on_the_future": [LATER_WEIGHTS, FUTURE],
    "inside.itself": [ITSELF],
    "inside.weights_follow_scores": [OVER_KEYS],
    "inside.scale": [SCALE, FUSED_SCALE],
    "declared.scale": [SCALE, FUSED_SCALE],
    "heads.joined": [TWICE, JOINED],
    "heads.differ": [ALIKE],
    "heads.groups": [GROUPS, NEIGHBOURS],
    "groups.queries": [SERVED],
    "groups.members": [SERVED, GROUPS],
    "positions.lookup": [LOOKED_UP],
    "declared.window": [WINDOW],
    "window.field": [WINDOW],
    "heads.projections": [CALLED],
    "modules.executed": [CALLED],
}
