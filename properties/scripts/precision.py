"""Relations of half precision: its error beside what rounding weights and activations costs."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.fixtures.relations.half_precision import (
    AUTOCAST,
    BFLOAT16,
    FLOAT16,
    LATE,
    LONG,
    SHARE,
)
from theodolite.properties.scripts.relation import Case, Cases, Relation
from theodolite.properties.scripts.scene import Scene


def _near(scene: Scene) -> Iterator[Case]:
    for ids in scene.sequences(2):
        yield {"ids": f"torch.tensor([{ids}])", "more": "", "tokens": ":", "place": "these tokens"}


def _late(scene: Scene) -> Iterator[Case]:
    subject, size = scene.subject, scene.subject.vocabulary
    said = str(scene.check.where.get("place", ""))
    if subject.positions is not None and said.startswith("at positions"):
        for ids in scene.sequences(2):
            for start in reversed(LATE):
                more = f", {subject.positions}=torch.arange({start}, {start + len(ids)})[None]"
                case = {"ids": f"torch.tensor([{ids}])", "more": more, "tokens": ":"}
                yield {**case, "place": f"positions from {start} on"}
    for length in (LONG // 8, LONG // 4, LONG // 2, min(LONG, subject.longest or LONG)):
        tokens = f"{length - length // 4}:"
        case = {"ids": f"torch.arange({length})[None] * 7 % {size}", "more": "", "tokens": tokens}
        yield {**case, "place": f"the end of {length} tokens"}


def _in(way: str, cases: Cases) -> Cases:
    """The cases where the check failed in this way of computing."""
    return lambda scene: cases(scene) if scene.check.where.get("dtype") == way else ()


_TOOLS = """
def rounded(x): return x.to({dtype}).to(x.dtype) if torch.is_tensor(x) else x
def run(): return logits($ids$more)[:, $tokens].double()
def typical(x): return (x - exact).square().mean(-1).sqrt().median().item()
exact = run()
"""
_COST = """hooks = []
for m in [m for m in model.modules() if [*m.parameters()]]:
    hooks.append(m.register_forward_hook(lambda m, given, out: rounded(out)))
for p in model.parameters():
    p.data = rounded(p.data)
cost = typical(run())  # of rounding the weights and what modules give
[hook.remove() for hook in hooks]
"""
_JUDGED = """measured, bound = typical(half), {share:g} * cost
said = f"the logits of $place move by {{measured:.3g}}, {share:g} roundings by {{bound:.3g}}"
assert measured <= bound, "in {way} " + said
"""


def _halved(way: str, cases: Cases) -> Relation:
    dtype = "torch.float16" if way == FLOAT16 else "torch.bfloat16"
    within = f'with torch.autocast("cpu", {dtype}, cache_enabled=False):\n    half = run()\n'
    cast = f"model.to({dtype})\nhalf = run()\n"
    body = within + _COST if way == AUTOCAST else _COST + cast
    tools, judged = _TOOLS.format(dtype=dtype), _JUDGED.format(share=SHARE, way=way)
    return Relation(tools + body + judged, _in(way, cases), fresh=True)


_WAYS = (BFLOAT16, FLOAT16, AUTOCAST)

HALVED: dict[str, list[Relation]] = {
    "precision.half": [_halved(way, _near) for way in _WAYS],
    "precision.autocast": [_halved(AUTOCAST, _near)],
    "precision.late": [_halved(way, _late) for way in _WAYS],
}
