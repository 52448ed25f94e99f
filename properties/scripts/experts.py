"""Relations of mixtures of experts: a script silences one expert to see what it adds."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.fixtures.anatomy.experts import FALLS, LOUD, STEP, Mixture, mixtures_in
from theodolite.fixtures.subject.declarations import expanded
from theodolite.properties.scripts.relation import Case, Cases, Relation, of_cause
from theodolite.properties.scripts.scene import Scene

_DRAWS = 6
"""Tokens that are drawn until one shows the fault."""


def _mixture(scene: Scene) -> Mixture | None:
    found = mixtures_in(scene.subject.views.sharpened)
    return next((each for each in found if each.network.path == scene.module), None)


def _parts(mixture: Mixture) -> str:
    """The weights of expert i, as source."""
    names = [name for name, _ in mixture.experts[0]]
    if mixture.experts[0][0][1] is not None:
        return f"[p[i] for p in map(moe.get_parameter, {names})]"
    first, last = (expert[0][0].split(".") for expert in (mixture.experts[0], mixture.experts[-1]))
    place = next(i for i, (one, other) in enumerate(zip(first, last, strict=True)) if one != other)
    path = ".".join(first[:place])
    keys = [expert[0][0].split(".")[place] for expert in mixture.experts]
    if keys == [str(i) for i in range(len(keys))]:
        return f'[*moe.get_submodule("{path}")[i].parameters()]'
    return f'[*moe.get_submodule("{path}")[{keys}[i]].parameters()]'


def _layers(scene: Scene) -> Iterator[Case]:
    mixture = _mixture(scene)
    if mixture is None:
        return
    given = mixture.network.call.given
    lead = "" if given is None or given.ndim < 3 else "1, "
    rows = mixture.module.get_parameter(mixture.router).shape[0] == len(mixture.experts)
    for seed in range(_DRAWS):
        yield {
            "module": scene.module,
            "tokens": f"{lead}8, {mixture.given.shape[-1]}",
            "token": f"{lead}1, {mixture.given.shape[-1]}",
            "parts": _parts(mixture),
            "count": len(mixture.experts),
            "router": f'moe.get_parameter("{mixture.router}")' + ("" if rows else ".T"),
            "seed": seed,
        }


def _counted(scene: Scene) -> Iterator[Case]:
    declared = expanded(scene.subject.declarations).get("active_experts")
    wanted = scene.check.at_most if declared is None else declared
    for case in _layers(scene):
        yield {**case, "wanted": None if wanted is None else int(wanted)}


def _unreached(scene: Scene) -> Iterator[Case]:
    return ({**case, "expert": scene.check.where.get("expert")} for case in _layers(scene))


def _declared_sum(*, divided: bool) -> Cases:
    def cases(scene: Scene) -> Iterator[Case]:
        if expanded(scene.subject.declarations).get("normalised_shares") is divided:
            yield from _layers(scene)

    return cases


_LAYER = """moe = model.get_submodule("$module")
def run(x): return out if torch.is_tensor(out := moe(x)) else out[0]
def parts(i): return $parts  # the weights of expert i
"""
_ADDED = """def added(i, x):  # what expert i adds to each token
    whole, kept = run(x), [p.clone() for p in parts(i)]
    [p.zero_() for p in parts(i)]
    without = run(x)
    [p.copy_(k) for p, k in zip(parts(i), kept)]
    return whole - without
torch.manual_seed($seed)
"""
_ALIKE = """for i in range(1, $count):  # every expert has the weights of the first
    [p.copy_(first) for p, first in zip(parts(i), parts(0))]
torch.manual_seed($seed)
x, router = torch.randn($tokens), $router
before = run(x)
router.copy_(2 * router.std() * torch.randn(router.shape))
moved, least = (run(x) - before).abs().max().item(), $EQUAL * before.abs().max().item()
"""

ACTIVE = Relation(
    _LAYER
    + _ADDED
    + """x = torch.randn($tokens)
works = sum(added(i, x).ne(0).any(-1).flatten().int() for i in range($count)).tolist()
assert works == 8 * [$wanted], f"experts that work on each token: {works}, not $wanted\"""",
    _counted,
    fresh=True,
)
ONE = Relation(
    _LAYER
    + """own = {tuple(p.data_ptr() for p in parts(i)) for i in range($count)}
assert len(own) == $count, f"$count experts share {len(own)} sets of weights\"""",
    of_cause("experts-are-one")(_layers),
)
REACHED = Relation(
    _LAYER
    + _ADDED
    + f"""x = torch.randn($token)
$router[$expert] += {LOUD:g} * x.flatten() / x.square().sum()  # a score by far the highest
assert added($expert, x).any(), "expert $expert is not chosen with the highest score\"""",
    of_cause("expert-unreachable")(_unreached),
    fresh=True,
)
SHARES = Relation(
    _LAYER
    + _ADDED
    + f"""x = torch.randn($token)
i = next(i for i in range($count) if added(i, x).any())  # it works on this token
before = added(i, x)
$router[i] += {STEP:g} * x.flatten() / x.square().sum()  # its score is a little higher
falls = 1 - ((before * added(i, x)).sum() / before.square().sum()).item()
assert falls < {FALLS:g}, f"with a higher score expert {{i}} adds less, by {{falls:.3g}}\"""",
    _layers,
    fresh=True,
)
DIVIDED = Relation(
    _LAYER + _ALIKE + """assert moved <= least, f"shares do not sum to one number: {moved:.3g}\"""",
    _declared_sum(divided=True),
    fresh=True,
)
LEFT = Relation(
    _LAYER
    + _ALIKE
    + """assert moved > least, "shares are divided by their sum, which is not meant\"""",
    _declared_sum(divided=False),
    fresh=True,
)

EXPERTS: dict[str, list[Relation]] = {
    "experts.active": [ACTIVE],
    "experts.reached": [ONE, REACHED],
    "experts.shares": [SHARES],
    "experts.normalised": [DIVIDED, LEFT],
}
