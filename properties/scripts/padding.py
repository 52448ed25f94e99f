"""Relations of padding: what is hidden by a mask is as if it were not there."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.fixtures.serving.packing import NUMBERS
from theodolite.fixtures.serving.padding import half_hearted
from theodolite.fixtures.subject.convention import POSITIONS, keywords_of
from theodolite.properties.scripts.relation import Case, Relation, same
from theodolite.properties.scripts.scene import Scene


def padded_texts(scene: Scene) -> Iterator[Case]:
    """Texts padded on a side: ids, the same with other padding, the mask, and what is real."""
    if scene.padding is None:
        return
    for side in dict.fromkeys((str(scene.check.where.get("side", "right")), "left", "right")):
        for padding in (1, 2, 4):
            for text in scene.sequences(2):
                if len(text) + padding <= scene.subject.length:
                    yield _one(scene, side, padding, text)


def _one(scene: Scene, side: str, padding: int, text: list[int]) -> Case:
    assert scene.padding is not None
    fill, other = ([scene.other(text[0] + i)] * padding for i in (1, 2))
    left = side == "left"
    ids, changed = ([each + text] if left else [text + each] for each in (fill, other))
    real = [
        [False] * padding + [True] * len(text) if left else [True] * len(text) + [False] * padding
    ]
    later = [*text[:-1], scene.other(text[-1])]
    keyword = scene.subject.positions
    places = [max(0, i - padding) if left else i for i in range(padding + len(text))]
    return {
        "ids": ids,
        "changed": changed,
        "length": len(ids[0]),
        "later": [fill + later] if left else [later + fill],
        "keyword": scene.padding.keyword,
        "mask": scene.mask(real),
        "ones": scene.mask([[True] * len(ids[0])]),
        "none": scene.mask([[False] * len(ids[0])]),
        "real": f"{padding}:" if left else f":{len(text)}",
        "early": f"{padding}:-1" if left else f":{len(text) - 1}",
        "positions": f", {keyword}=torch.tensor({[places]})" if keyword and left else "",
    }


def _taken(scene: Scene) -> Iterator[Case]:
    """What an argument of forward is given, for one sequence: it ought to change something."""
    name = str(scene.check.where.get("argument", ""))
    for ids in scene.sequences(4):
        length, half = len(ids), len(ids) // 2
        value: list[int] = [int(i != 1) for i in range(length)]
        if name in POSITIONS:
            value = [*range(length)][::-1]
        elif name in NUMBERS:
            value = [1] * half + [2] * (length - half)
        yield {"ids": [ids], "name": name, "value": [value]}


def _half_hidden(scene: Scene) -> Iterator[Case]:
    padding = half_hearted(scene.subject)
    for ids in scene.sequences(3) if padding else ():
        assert padding is not None
        changed = [*ids]
        changed[1] = scene.other(ids[1])
        mask = [padding.real if i != 1 else padding.hidden for i in range(len(ids))]
        yield {
            "ids": [ids],
            "changed": [changed],
            "keyword": padding.keyword,
            "mask": f"torch.tensor({[mask]})",
        }


def _halves(scene: Scene) -> Iterator[Case]:
    said = f"{scene.check.expected} {scene.check.message}"
    dtypes = [name for name in ("torch.bfloat16", "torch.float16") if name in said]
    for case in padded_texts(scene):
        for dtype in dtypes:
            yield {**case, "dtype": dtype}


def _packed(scene: Scene) -> Iterator[Case]:
    declared = scene.subject.declarations.get("packing")
    taken = keywords_of(scene.subject.model)
    names = [declared] if declared else [name for name in NUMBERS if name in taken]
    for text in scene.sequences(2) if names else ():
        first = [scene.other(token) for token in text[:-1]]
        yield {
            "ids": [first + text],
            "keyword": names[0],
            "documents": [[1] * len(first) + [2] * len(text)],
            "real": f"{len(first)}:",
        }


_IDS = "ids, mask = torch.tensor($ids), $mask\n"

ONES = Relation(
    "ids, ones = torch.tensor($ids), $ones\n"
    + same("logits(ids, $keyword=ones)", "logits(ids)", "a mask of ones changes the logits"),
    padded_texts,
)
CONTENT = Relation(
    "ids, changed, mask = torch.tensor($ids), torch.tensor($changed), $mask\n"
    + same(
        "logits(changed, $keyword=mask)[:, $real]",
        "logits(ids, $keyword=mask)[:, $real]",
        "what stands at padding changes the logits of real tokens",
        bound="$LEAK",
    ),
    padded_texts,
)
ALONE = Relation(
    _IDS
    + same(
        "logits(ids, $keyword=mask)[:, $real]",
        "logits(ids[:, $real])",
        "a padded text gives other logits than the text alone",
    ),
    padded_texts,
)
ALONE_PLACED = Relation(
    _IDS
    + same(
        "logits(ids, $keyword=mask$positions)[:, $real]",
        "logits(ids[:, $real])",
        "a padded text gives other logits than the text alone",
    ),
    lambda scene: (case for case in padded_texts(scene) if case["positions"]),
)
FINITE = Relation(
    _IDS
    + """real = logits(ids, $keyword=mask)[:, $real]
bad = (~torch.isfinite(real)).sum().item()
assert bad == 0, f"{bad} logits of real tokens are not finite\"""",
    padded_texts,
)
HALF = Relation(
    "model.to($dtype)\n" + FINITE.body,
    _halves,
    views=("sharpened",),
    fresh=True,
)
CAUSAL = Relation(
    "ids, changed, mask = torch.tensor($ids), torch.tensor($later), $mask\n"
    + same(
        "logits(changed, $keyword=mask)[:, $early]",
        "logits(ids, $keyword=mask)[:, $early]",
        "beside padding a later token changes earlier logits",
        bound="$LEAK",
    ),
    padded_texts,
)
EMPTY = Relation(
    """ids = torch.tensor($ids).expand(2, -1)
mask = torch.cat([$ones, $none])  # the second row is padding alone
"""
    + same(
        "logits(ids, $keyword=mask)[0]",
        "logits(ids)[0]",
        "a row of padding alone changes the row beside it",
    ),
    padded_texts,
)
PACKED_ALONE = Relation(
    "ids, documents = torch.tensor($ids), torch.tensor($documents)  # two in one row\n"
    + same(
        "logits(ids, $keyword=documents)[:, $real]",
        "logits(ids[:, $real])",
        "the second document of a row gives other logits than alone",
    ),
    _packed,
)
HIDES = Relation(
    "ids, changed, mask = torch.tensor($ids), torch.tensor($changed), $mask\n"
    + same(
        "logits(changed, $keyword=mask)[:, 2:]",
        "logits(ids, $keyword=mask)[:, 2:]",
        "a hidden token changes the logits of others",
        bound="$LEAK",
    ),
    _half_hidden,
)

HEEDED = Relation(
    """
ids = torch.tensor($ids)
moved = (logits(ids, $name=torch.tensor($value)) - logits(ids)).abs().max().item()
assert not moved == 0, "$name changes no logit"
""",
    _taken,
)

PADDED: dict[str, list[Relation]] = {
    "padding.ones": [ONES],
    "padding.content": [CONTENT],
    "padding.alone": [ALONE, ALONE_PLACED],
    "padding.finite": [FINITE],
    "padding.half_precision": [HALF],
    "padding.causality": [CAUSAL],
    "padding.empty_row": [EMPTY],
    "padding.hides": [HIDES],
    "packing.documents": [PACKED_ALONE],
    "arguments.heeded": [HEEDED],
}
