"""Relations of a cache and of given positions: both must give what the full forward gives."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.fixtures.errors import Unknown
from theodolite.fixtures.serving.decoder import Declared, Decoder, Own
from theodolite.fixtures.serving.finding_decoder import decoder_of
from theodolite.properties.scripts.padding import padded_texts
from theodolite.properties.scripts.relation import Case, Relation, of_cause, same
from theodolite.properties.scripts.scene import Scene

_PIECES = ([1, 1], [2, 1], [2, 2], [3, 1, 1], [3, 2, 2], [5, 1, 1, 1])


def _steps(scene: Scene) -> Iterator[Case]:
    decoder = _decoder(scene)
    if decoder is None:
        return
    length = scene.subject.length
    long = min(scene.subject.longest or 48, 48)
    pieces = [*_PIECES, [length - 3, 1, 1, 1], [3] + [1] * (length - 3), [long - 2, 1, 1]]
    for rows in (1, 2):
        for cut in pieces if rows == 1 else pieces[:3]:
            if sum(cut) > (scene.subject.longest or length):
                continue
            text = [scene.mixed(sum(cut), seed=row) for row in range(rows)]
            other = [scene.mixed(sum(cut), seed=row + 5) for row in range(rows)]
            if rows == 1 and sum(cut) < 5:
                text, other = [scene.tokens(sum(cut))], [scene.tokens(sum(cut), start=5)]
            yield {
                "text": text,
                "other": other,
                "pieces": cut,
                "prompt": cut[0],
                **_told(scene, decoder, rows),
            }


def _told(scene: Scene, decoder: Decoder, rows: int, *more: str) -> dict[str, object]:
    """How it begins, reads on and keeps what it has read, as source."""
    return {
        "start": f"found = []; {decoder.start_source(rows)}",
        "step": decoder.step_source(scene.subject.convention, *more),
        "keep": decoder.keep_source(),
        "pick": scene.pick,
    }


def _decoder(scene: Scene) -> Decoder | None:
    """How the subject decodes; None where that is unknown, or code of the subject's or user's."""
    found = decoder_of(scene.subject)
    return None if isinstance(found, Unknown | Declared | Own) else found


_LOOP = """for ids in text.split($pieces, dim=1):
    output = $step
    $keep
    found.append(output$pick)
"""
_WHOLE = same("torch.cat(found, 1)", "logits(text)", "reading in pieces gives other logits")
_LAST = same(
    "found[-1][:, -1]", "logits(text)[:, -1]", "reading in pieces gives other logits at the end"
)

STEPS = Relation(
    f"text = torch.tensor($text)\n$start\n{_LOOP}{_WHOLE}",
    _steps,
    fresh=True,
)
LAST = Relation(
    f"text = torch.tensor($text)\n$start\n{_LOOP}{_LAST}",
    _steps,
    fresh=True,
)
REFUSED = Relation(
    "text = torch.tensor($text)\n$start\ntry:\n"
    + "".join(f"    {line}\n" for line in _LOOP.splitlines())
    + """except Exception as error:
    raise AssertionError(f"a token behind a cache is refused: {error}") from error""",
    of_cause("cache-refused")(_steps),
    fresh=True,
)
TURNS = Relation(
    "for text in (torch.tensor($other), torch.tensor($text)):  # one after the other\n"
    "    $start\n" + "".join(f"    {line}\n" for line in _LOOP.splitlines()) + _WHOLE,
    _steps,
    fresh=True,
)
USED = Relation(
    f"text = torch.tensor($text)\nbefore = logits(text)\n$start\n{_LOOP}"
    + same("logits(text)", "before", "a forward gives other logits once the model has decoded"),
    _steps,
    fresh=True,
)
BESIDE = Relation(
    """one, two = torch.tensor($text), torch.tensor($other)
pasts, found = [None, None], [[], []]
for pieces in zip(one.split($pieces, dim=1), two.split($pieces, dim=1)):
    for i, ids in enumerate(pieces):  # two texts, read in turn with a cache each
        past = pasts[i]
        output = $step
        $keep
        pasts[i] = past
        found[i].append(output$pick)
"""
    + same("torch.cat(found[0], 1)", "logits(one)", "two caches in use change each other"),
    _steps,
    fresh=True,
)


def _left_padded(scene: Scene) -> Iterator[Case]:
    decoder = _decoder(scene)
    if decoder is None or scene.padding is None:
        return
    for case in padded_texts(scene):
        if str(case["real"]).startswith(":"):
            continue
        yield {**case, **_told(scene, decoder, 1, f"{case['keyword']}=mask[:, :end]")}


PADDED_STEPS = Relation(
    """text, mask = torch.tensor($ids), $mask
$start
for begin, end in ((0, $length - 1), ($length - 1, $length)):
    ids = text[:, begin:end]
    output = $step
    $keep
    found.append(output$pick)
"""
    + same(
        "found[-1][:, -1]",
        "logits(text[:, $real])[:, -1]",
        "a padded text read with a cache gives other logits than the text alone",
    ),
    _left_padded,
    fresh=True,
)


def _placed(scene: Scene) -> Iterator[Case]:
    keyword = scene.subject.positions
    if keyword is None:
        return
    for ids in scene.sequences(2):
        for shift in dict.fromkeys((scene.check.where.get("shift", 1), 1, 10, 50)):
            yield {"ids": [ids], "keyword": keyword, "shift": shift, "length": len(ids)}


DEFAULT = Relation(
    "ids, places = torch.tensor($ids), torch.arange($length)[None]\n"
    + same("logits(ids, $keyword=places)", "logits(ids)", "positions from 0 are not the default"),
    _placed,
)
SHIFTED = Relation(
    "ids, places = torch.tensor($ids), torch.arange($length)[None]\n"
    + same(
        "logits(ids, $keyword=places + $shift)",
        "logits(ids, $keyword=places)",
        "moving all positions by $shift moves the logits",
    ),
    lambda scene: _placed(scene) if scene.check.cause != "absolute-shift" else (),
)
UNMOVED = Relation(
    """ids, places = torch.tensor($ids), torch.arange($length)[None]
moved = (logits(ids, $keyword=places + $shift) - logits(ids, $keyword=places)).abs().max().item()
assert moved > 0, "absolute positions do not change the logits\"""",
    of_cause("absolute-shift")(_placed),
)

CACHED: dict[str, list[Relation]] = {
    "cache.steps": [REFUSED, STEPS, TURNS, LAST],
    "cache.chunks": [REFUSED, STEPS, TURNS, LAST],
    "cache.long": [REFUSED, STEPS, TURNS, LAST],
    "window.cache": [STEPS, LAST, REFUSED],
    "cache.turns": [TURNS, BESIDE],
    "cache.programs": [TURNS, BESIDE, STEPS],
    "state.used": [USED],
    "padding.cache": [PADDED_STEPS],
    "positions.default": [DEFAULT],
    "positions.shift": [SHIFTED, UNMOVED],
}
