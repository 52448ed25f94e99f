"""Relations of a cache and of given positions: both must give what the full forward gives."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.fixtures.serving.decoder import Decoder, decoder_of
from theodolite.properties.scripts.padded import padded_texts
from theodolite.properties.scripts.relation import Case, Relation, of_cause, same
from theodolite.properties.scripts.scene import Scene

_PIECES = ([1, 1], [2, 1], [2, 2], [3, 1, 1], [3, 2, 2], [5, 1, 1, 1])


def _steps(scene: Scene) -> Iterator[Case]:
    decoder = decoder_of(scene.subject)
    if isinstance(decoder, str) or decoder.make is not None:
        return  # a cache of the subject's own class is made amid its own code
    if decoder.declared is not None or decoder.fresh is not None:
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
                "start": _start(decoder, rows),
                "step": _step(scene, decoder),
                **_gave(scene, decoder),
            }


def _start(decoder: Decoder, rows: int) -> str:
    past = "None" if decoder.maker is None else f"model.{decoder.maker}()"
    counted = decoder.counter is not None or decoder.positions is not None
    start = "past, found, read = $past, [], 0" if counted else "past, found = $past, []"
    lines = [*(f"model.{name}()" for name in decoder.resets)]
    if decoder.sizing is not None:
        lines.append(f"model.{decoder.sizing}(batch_size={rows})")
    return "; ".join([*lines, start.replace("$past", past)])


def _step(scene: Scene, decoder: Decoder) -> str:
    parts = [scene.given, *(f"{name}=True" for name in decoder.switches)]
    if decoder.counter is not None:
        parts.append(f"{decoder.counter}=read")
    if decoder.positions is not None:
        parts.append(f"{decoder.positions}=torch.arange(read, read + ids.shape[1])")
    if decoder.keyword is not None:
        parts.append(f"{decoder.keyword}=past")
    return f"model({', '.join(parts)})"


def _gave(scene: Scene, decoder: Decoder) -> dict[str, object]:
    place = decoder.place
    kept = None
    if isinstance(place, int):
        kept = f"output[{place}]"
    elif place is not None:
        kept = (
            f"output.{place}"
            if "logits" in scene.pick or "." in scene.pick
            else f"output[{place!r}]"
        )
    counted = decoder.counter is not None or decoder.positions is not None
    keep = [f"past = {kept}"] if kept else []
    keep += ["read += ids.shape[1]"] if counted else []
    return {"keep": "; ".join(keep or ["pass"]), "pick": scene.pick}


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
    decoder = decoder_of(scene.subject)
    if isinstance(decoder, str) or decoder.declared is not None or scene.padding is None:
        return
    for case in padded_texts(scene):
        if str(case["real"]).startswith(":"):
            continue
        yield {
            **case,
            "start": _start(decoder, 1),
            "step": _step(scene, decoder)[:-1] + f", {case['keyword']}=mask[:, :end])",
            **_gave(scene, decoder),
        }


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
