"""Relations of a subject's own way of writing on: it writes what its own forward says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from theodolite.fixtures.errors import Unknown
from theodolite.fixtures.serving.finding_writer import writer_of
from theodolite.fixtures.serving.writer import Writer
from theodolite.properties.scripts.padding import padded_texts
from theodolite.properties.scripts.relation import Case, Cases, Relation
from theodolite.properties.scripts.scene import Scene

_NEW = 4
_TIE = 1e-3
"""How far below the likeliest token, in logits, a greedy one may stand: the check allows twice
`RELATION`, which is this where the standard deviation of the logits is 5."""

_COLD = 1e-3
"""A temperature at which nothing but the likeliest token can be drawn."""

_NEVER = 40
"""Temperatures below the likeliest at which no token is drawn: e⁻⁴⁰, for any vocabulary."""


def _writer(scene: Scene) -> Writer | None:
    found = writer_of(scene.subject)
    return None if isinstance(found, Unknown) else found


def _written(
    scene: Scene, prompt: str, count: int, options: Mapping[str, Any] | None = None, **told: str
) -> str | None:
    """The call that writes on, as source (see `Writer.source`)."""
    writer = _writer(scene)
    if writer is None:
        return None
    return writer.source(scene.subject, prompt, count, options or {}, **told)


def _greedy_ways(scene: Scene) -> list[dict[str, Any]]:
    writer = _writer(scene)
    if writer is None:
        return []
    ways: list[dict[str, Any]] = writer.greedy(scene.subject.views.sharpened)
    if writer.offers("temperature"):  # so cold that nothing but the likeliest can be drawn
        ways.append({"temperature": _COLD})
    return ways


def _prompts(scene: Scene) -> Iterator[list[int]]:
    for length in (1, 2, 3, 5):
        if length >= scene.subject.shortest:
            yield scene.tokens(length)
            yield scene.mixed(length, seed=2)


def _plain(scene: Scene) -> Iterator[Case]:
    for ids in _prompts(scene):
        call = _written(scene, "ids", _NEW)
        if call is not None:
            vocabulary = scene.subject.vocabulary
            yield {"ids": [ids], "n": len(ids), "new": _NEW, "call": call, "V": vocabulary}


def _greedy(scene: Scene) -> Iterator[Case]:
    yield from _likeliest(scene, _greedy_ways(scene))


def _cold(scene: Scene) -> Iterator[Case]:
    yield from _likeliest(scene, [{"temperature": _COLD}])


def _likeliest(scene: Scene, ways: list[dict[str, Any]]) -> Iterator[Case]:
    for way in ways:
        for ids in _prompts(scene):
            call = _written(scene, "ids", _NEW, way)
            if call is not None:
                slack = _TIE + _NEVER * way.get("temperature", 0.0)
                yield {"ids": [ids], "n": len(ids), "call": call, "slack": slack}


def _filtered(meaning: str, value: str = "") -> Cases:
    def cases(scene: Scene) -> Iterator[Case]:
        writer = _writer(scene)
        if writer is None or not writer.offers(meaning) or not writer.rows:
            return
        for ids in _prompts(scene):
            for k in (1, 2, 4):
                told = {meaning: value or str(k)}
                call = _written(scene, "ids.expand(1000, -1)", 1, {}, **told)
                yield {"ids": [ids], "k": k, "call": call}

    return cases


def _drawn(scene: Scene) -> Iterator[Case]:
    for ids in _prompts(scene):
        call = _written(scene, "ids.expand(2000, -1)", 1)
        if call is not None:
            yield {"ids": [ids], "call": call, "V": scene.subject.vocabulary}


def _narrow(scene: Scene) -> Iterator[Case]:
    writer = _writer(scene)
    offered = {"top_p": 1e-6, "top_k": 2, "temperature": 0.5}
    if writer is None or not writer.rows:
        return
    options = {name: value for name, value in offered.items() if writer.offers(name)}
    if "top_p" not in options:
        options["top_k"] = 1
    for ids in _prompts(scene):
        call = _written(scene, "ids.expand(16, -1)", 1, options)
        yield {"ids": [ids], "call": call}


def _ended(scene: Scene) -> Iterator[Case]:
    for way in _greedy_ways(scene):
        for ids in _prompts(scene):
            free = _written(scene, "ids", _NEW, way)
            end = _written(scene, "ids", _NEW, way, end="end")
            if free is not None and end is not None:
                yield {"ids": [ids], "n": len(ids), "call": free, "ended": end}


def _context(scene: Scene) -> Iterator[Case]:
    writer, limit = _writer(scene), scene.subject.longest
    options: dict[str, Any] = {}
    if writer is not None and writer.offers("context"):
        options, limit = {"context": 6}, 6
    for way in _greedy_ways(scene) if limit and limit <= 512 else ():
        ids = scene.mixed((limit or 0) + 4)
        call = _written(scene, "ids", _NEW, {**way, **options})
        if call is not None:
            yield {"ids": [ids], "older": [[*map(scene.other, ids[:4]), *ids[4:]]], "call": call}


def _padded(scene: Scene) -> Iterator[Case]:
    for way in _greedy_ways(scene):
        for case in padded_texts(scene):
            left = not str(case["real"]).startswith(":")
            side = scene.subject.declarations.get("padding_side", "left")
            alone = _written(scene, f"ids[:, {case['real']}]", 2, way)
            call = _written(scene, "ids", 2, way, mask="mask")
            if alone is not None and call is not None and (side == "left") == left:
                yield {**case, "call": call, "alone": alone}


_IDS = "torch.manual_seed(0)\nids = torch.tensor($ids)\n"

KEPT = Relation(
    _IDS
    + """kept, written = ids.clone(), $call
assert torch.equal(ids, kept) and torch.equal(written[:, :$n], kept), (
    f"the prompt {kept.tolist()} became {written.tolist()}"
)""",
    _plain,
)
COUNT = Relation(
    _IDS
    + """new = ($call).shape[1] - $n
assert new == $new, f"{new} tokens are written where $new are asked for\"""",
    _plain,
)
KNOWN = Relation(
    _IDS
    + """largest = ($call).max().item()
assert largest < $V, f"token {largest} is written; the vocabulary has $V\"""",
    _plain,
)
AGAIN = Relation(
    """ids, written = torch.tensor($ids), []
for _ in range(2):
    torch.manual_seed(3)
    written.append($call)
assert torch.equal(*written), f"one seed writes {[w.tolist() for w in written]}\"""",
    _plain,
)
_GREEDY = """written = $call
scores = logits(written[:, :-1])[:, $n - 1:]
chosen = scores.gather(-1, written[:, $n:, None])[..., 0]
measured, bound = (scores.amax(-1) - chosen).max().item(), $slack
assert measured <= bound, f"a token {measured:.3g} below the likeliest is written\""""
GREEDY = Relation(_IDS + _GREEDY, _greedy, views=("sharpened",))
COLD = Relation(_IDS + _GREEDY, _cold, views=("sharpened",))
TOP_K = Relation(
    _IDS
    + """allowed, drawn = logits(ids)[0, -1].topk($k).indices, ($call)[:, -1]
outside = set(drawn.tolist()) ^ set(allowed.tolist())
assert not outside, f"drawn {sorted(set(drawn.tolist()))[:9]}, likeliest {allowed.tolist()}\"""",
    _filtered("top_k"),
)
TOP_P = Relation(
    _IDS
    + """share, order = logits(ids)[0, -1].softmax(-1).sort(descending=True)
mass = (share[:$k].sum() - share[$k - 1] / 2).item()  # reached in the middle of token number $k
allowed, drawn = order[:$k].tolist(), ($call)[:, -1].tolist()
assert set(drawn) == set(allowed), f"drawn {sorted(set(drawn))[:9]}, within top-p {allowed}\"""",
    _filtered("top_p", "mass"),
)
NARROW = Relation(
    _IDS
    + """likeliest = logits(ids)[0, -1].argmax().item()
try:
    drawn = set(($call)[:, -1].tolist())
except RuntimeError as error:  # there is nothing left to draw from
    drawn = {str(error)}
assert drawn == {likeliest}, f"the narrowest filters leave {drawn}, not {likeliest}\"""",
    _narrow,
)
SHARES = Relation(
    _IDS
    + """drawn = ($call)[:, -1].bincount(minlength=$V) / 2000
measured, bound = (drawn - logits(ids)[0, -1].softmax(-1)).abs().max().item(), $SHARE
assert measured <= bound, f"shares of draws are {measured:.3g} off softmax\"""",
    _drawn,
    views=("sharpened", "amplified"),
)
ENDS = Relation(
    _IDS
    + """free = ($call)[0, $n:].tolist()
end = free[1]  # a token that is written is declared to be the end
behind = ($ended)[0, $n + free.index(end) + 1:].tolist()
assert not set(behind) - {end, 0}, f"behind the end {end} there is written {behind}\"""",
    _ended,
)
OLDER = Relation(
    """ids = torch.tensor($ids)
one = ($call)[:, -1:]
ids = torch.tensor($older)  # tokens before the context are others
two = ($call)[:, -1:]
assert torch.equal(one, two), f"tokens before the context change what is written\"""",
    _context,
)
PADDED = Relation(
    _IDS
    + """mask = $mask
padded, alone = ($call)[0, -2:].tolist(), ($alone)[0, -2:].tolist()
assert padded == alone, f"a padded prompt writes {padded}; alone it writes {alone}\"""",
    _padded,
)

GENERATED: dict[str, list[Relation]] = {
    "generation.prompt": [KEPT, COUNT, KNOWN],
    "generation.reproducible": [AGAIN],
    "generation.greedy": [GREEDY, KEPT],
    "generation.temperature": [COLD, KEPT],
    "generation.top_k": [TOP_K],
    "generation.top_p": [TOP_P],
    "generation.filters": [NARROW],
    "generation.distribution": [SHARES],
    "generation.end": [ENDS],
    "generation.context": [OLDER],
    "generation.padded": [PADDED],
}
