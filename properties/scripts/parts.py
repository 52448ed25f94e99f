"""Relations of single parts, run by themselves: norms, feed-forward networks, blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations

from torch import nn

from theodolite.fixtures.anatomy.blocks import Block, blocks_of, last_of
from theodolite.fixtures.anatomy.feed_forward_kinds import misformed
from theodolite.fixtures.anatomy.streams import is_norm_of
from theodolite.properties.scripts.attention import CALLED
from theodolite.properties.scripts.relation import Case, Relation, of_cause
from theodolite.properties.scripts.scene import Scene

_RMS = "x.pow(2).mean(-1, keepdim=True)"


def _part(scene: Scene) -> Iterator[Case]:
    """The module that failed, and how wide its input is."""
    inside = scene.subject.views.sharpened.insides.random
    for call in inside.calls:
        if call.path == scene.module and call.given is not None:
            yield {"module": call.path, "width": call.given.shape[-1]}
            return


def _norm(scene: Scene) -> Iterator[Case]:
    for case in _part(scene):
        module = scene.subject.model.get_submodule(str(case["module"]))
        gains = [n for n, p in module.named_parameters() if p.numel() == case["width"]]
        small: list[str | None] = [
            name
            for name, value in vars(module).items()
            if isinstance(value, float) and 0 < value < 0.1
        ]
        for eps in small or [None]:
            yield {**case, "gain": gains[0] if gains else None, "eps": eps}


def _matrices(scene: Scene) -> Iterator[Case]:
    names = [
        n for key in ("unused", "gate") for n in str(scene.check.where.get(key, "")).split(", ")
    ]
    for case in _part(scene):
        module = scene.subject.model.get_submodule(str(case["module"]))
        for name in names:
            for path, _ in module.named_parameters():
                if name and (path in (name, f"{name}.weight") or name.endswith(path)):
                    yield {**case, "matrix": path}


def _added(scene: Scene) -> Iterator[Case]:
    one, _, two = str(scene.check.where.get("added", "")).partition(" and ")
    return ({**case, "one": one, "two": two} for case in _part(scene))


def _gated(scene: Scene) -> Iterator[Case]:
    """A network and its three linear layers, where each is a module of its own."""
    inside = scene.subject.views.sharpened.insides.random
    for found in misformed(inside):
        one, two, down = (
            product.weight.rpartition(".")[0] for product in (found.first, found.second, found.down)
        )
        call = next((each for each in inside.calls if each.path == found.down.module), None)
        net = found.down.module if one != found.down.module else ""
        net = net.rpartition(".")[0] if net == down else net
        if call is not None and found.activation in ("relu", "gelu", "silu") and one != two:
            width = found.first.input.shape[-1]
            case = {"net": net, "width": width, "one": one, "two": two, "down": down}
            yield {**case, "act": found.activation}


def _pairs(scene: Scene) -> Iterator[Case]:
    """Two linear layers of one part, one of which reads a norm of what the other reads."""
    inside = scene.subject.views.sharpened.insides.random
    own = [call for call in inside.within(scene.module or "") if isinstance(call.module, nn.Linear)]
    for one, other in permutations(own, 2):
        if one.given is not None and other.given is not None and is_norm_of(one.given, other.given):
            for ids in islice(scene.sequences(2), 2):
                yield {"one": one.path, "other": other.path, "ids": [ids]}


def _blocks(scene: Scene) -> tuple[list[Block], str]:
    inside = scene.subject.views.sharpened.insides.random
    blocks = blocks_of(inside)
    return blocks, last_of(inside, blocks)


def _block(scene: Scene) -> Iterator[Case]:
    blocks, last = _blocks(scene)
    named = [b for b in blocks if b.path == scene.module] or blocks
    for block in named:
        model = scene.subject.model.get_submodule(block.path)
        parts = [n for n, m in model.named_children() if any(p.ndim > 1 for p in m.parameters())]
        branch = block.branch[len(block.path) + 1 :]
        others = [name for name in parts if name != branch]
        for ids in islice(scene.sequences(3), 2):
            case = {
                "block": block.path,
                "last": last,
                "parts": parts,
                "ids": [ids],
                "row": block.path.rpartition(".")[0],
            }
            if branch in parts and others:
                yield {**case, "dead": others, "alive": branch}
                yield {**case, "dead": [branch], "alive": others[0]}
            else:
                yield {**case, "dead": None, "alive": None}


def _whole_block(scene: Scene) -> Iterator[Case]:
    return ({**case, "dead": 0, "alive": 0} for case in _block(scene))


_NORM = 'norm, x = model.get_submodule("$module"), torch.randn(2, 3, $width)\n'
_CENTRED = _NORM + (
    f"x -= x.mean(-1, keepdim=True)  # then RMSNorm and LayerNorm are one\nsize = {_RMS}.sqrt()\n"
)
_FEED = 'f, x = model.get_submodule("$module"), torch.randn(2, 3, $width)\n'
_BEND = """bends = twice - 2 * once + none, against + once - 2 * none  # ReLU doubles as a line does
bend, least = max(each.abs().max().item() for each in bends), $LINEAR * once.abs().max().item()
"""
_OTHERS = """for dim in (0, 1):  # other rows, other positions
    changed = torch.randn_like(x)
    changed.select(dim, 1).copy_(x.select(dim, 1))
    left, right = {f}(changed).select(dim, 1), {f}(x).select(dim, 1)
    measured, bound = (left - right).abs().max().item(), $EQUAL * right.abs().max().item()
    assert measured <= bound, f"one position's output depends on others: by {{measured:.3g}}\""""
_SEEN = """block, seen = model.get_submodule("$block"), {}
block.register_forward_hook(
    lambda module, given, out: seen.update(x=given[0], y=out if torch.is_tensor(out) else out[0])
)
"""

SCALE_FREE = Relation(
    _CENTRED
    + """left, right = norm(10 * x), norm(x)
measured, bound = (left - right).abs().max().item(), $NORMED * right.abs().max().item()
assert measured <= bound, f"ten times the input moves the norm's output by {measured:.3g}\"""",
    _norm,
)
CENTRES = Relation(
    _NORM
    + f"""rms = norm(x) / x * {_RMS}.sqrt()  # the gain, the same at every position
measured, bound = (rms - rms[:1, :1]).abs().max().item(), $NORMED * rms.abs().median().item()
assert measured <= bound, f"it is no x / rms(x) * gain: the gain varies by {{measured:.3g}}\"""",
    of_cause("rms-by-deviation")(_norm),
)
EPSILON = Relation(
    _CENTRED
    + """gain, tiny = (norm(x) / x * size).mean((0, 1)), 3e-3 * x
wanted = gain * tiny / (tiny.pow(2).mean(-1, keepdim=True) + norm.$eps).sqrt()
measured, bound = (norm(tiny) - wanted).abs().max().item(), $FADED * wanted.abs().max().item()
assert measured <= bound, f"eps is not inside the root: tiny inputs are off by {measured:.3g}\"""",
    _norm,
)
ZEROS = Relation(
    """norm, x = model.get_submodule("$module"), torch.zeros(1, 1, $width)
bad = (~norm(x).isfinite()).sum().item()
assert bad == 0, f"{bad} channels of a position that is all zero are not finite\"""",
    of_cause("epsilon-missing")(_part),
)
GAIN = Relation(
    _CENTRED
    + """gain, weight = (norm(x) / x * size).mean((0, 1)), norm.get_parameter("$gain")
measured, bound = min((gain - weight - one).abs().max().item() for one in (0, 1)), $FADED
assert measured <= bound, f"channels are not multiplied by their gains: off by {measured:.3g}\"""",
    _norm,
)
NORM_ALONE = Relation(_NORM + _OTHERS.format(f="norm"), _norm)
FEED_ALONE = Relation(_FEED + _OTHERS.format(f="f"), _part)
BENDS = Relation(
    _FEED
    + "none, once, twice, against = f(0 * x), f(x), f(2 * x), f(-x)\n"
    + _BEND
    + """assert bend > least, f"the feed-forward network is linear, up to {bend:.3g}\"""",
    _part,
)
TAKES_PART = Relation(
    _FEED
    + """before = f(x)
f.get_parameter("$matrix").data.zero_()
moved = (f(x) - before).abs().max().item()
assert moved > 0, "$matrix takes no part: with zeros in its place nothing changes\"""",
    _matrices,
    fresh=True,
)
GATE_BENDS = Relation(
    _FEED
    + """matrix, outputs = f.get_parameter("$matrix").data, []
kept = matrix.clone()
for factor in (0, 1, 2, -1):
    matrix.copy_(factor * kept)
    outputs.append(f(x))
none, once, twice, against = outputs
"""
    + _BEND
    + """assert bend > least, f"the activation is not on $matrix, the gate, up to {bend:.3g}\"""",
    _matrices,
    fresh=True,
)
GATED = Relation(
    """
net, x, given = model.get_submodule("$net"), torch.randn(2, 3, $width), {}
for name in ("$one", "$two", "$down"):
    def keep(m, args, out, name=name):
        given[name] = args[0], out
    model.get_submodule(name).register_forward_hook(keep)
net(x)
a, b, read = given["$one"][1], given["$two"][1], given["$down"][0]
factors = [read / each for each in (a, b)]  # of act(a) * b, one depends on a or on b alone
measured, bound = min((f - wanted).abs().median().item() for f, wanted in (
    (factors[1], torch.nn.functional.$act(a)), (factors[0], torch.nn.functional.$act(b)),
)), $EQUAL * read.abs().max().item()
assert measured <= bound, f"what $down reads is no $act(a) * b: off by {measured:.3g}"
""",
    _gated,
)
MEET = Relation(
    _FEED
    + """pair, outputs = [f.get_parameter(name).data for name in ("$one", "$two")], []
kept = [matrix.clone() for matrix in pair]
for factors in ((1, 1), (1, 0), (0, 1), (0, 0)):
    for matrix, factor, old in zip(pair, factors, kept):
        matrix.copy_(factor * old)
    outputs.append(f(x))
both, one, two, none = outputs
measured, least = (both - one - two + none).abs().max().item(), $LINEAR * both.abs().max().item()
assert measured > least, "what $one adds is the same without $two: they are not multiplied\"""",
    of_cause("branches-added")(_added),
    fresh=True,
)
HANDED_ON = Relation(
    _SEEN
    + """for m in block.modules():  # nothing to say: every matrix of the block 0
    for p in m.parameters(recurse=False) if any(p.ndim > 1 for p in m.parameters(False)) else ():
        p.data.zero_()
logits(torch.tensor($ids))
measured, bound = (seen["y"] - seen["x"]).abs().max().item(), $EQUAL * seen["x"].abs().max().item()
assert measured <= bound, f"a block with nothing to say changes the stream by {measured:.3g}\"""",
    _whole_block,
    fresh=True,
)
ADDED = Relation(
    _SEEN
    + """def silence(part):
    for p in part.parameters():
        p.data.zero_()
[silence(block.get_submodule(name)) for name in $dead]  # the other branch has nothing to say
logits(torch.tensor($ids))
with_it = seen["y"]
silence(block.get_submodule("$alive"))
logits(torch.tensor($ids))
measured, least = (with_it - seen["y"]).abs().max().item(), $EQUAL * seen["x"].abs().max().item()
assert measured > least, "what $alive computes does not reach the block's output\"""",
    _block,
    fresh=True,
)
ONCE = Relation(
    _SEEN
    + """for name in $parts:
    def keep(m, given, out, name=name):
        seen[name] = out if torch.is_tensor(out) else out[0]
    block.get_submodule(name).register_forward_hook(keep)
logits(torch.tensor($ids))
rest = seen["y"] - seen["x"] - sum(seen[name] for name in $parts)
measured, bound = rest.abs().max().item(), $MULTIPLIER * seen["y"].abs().max().item()
assert measured <= bound, f"the block is not x plus each branch once: off by {measured:.3g}\"""",
    _whole_block,
    fresh=True,
)
FINAL_NORM = Relation(
    """
ids = torch.tensor($ids)
before = logits(ids)
model.get_submodule("$last").register_forward_hook(
    lambda m, given, out: 8 * out if torch.is_tensor(out) else (8 * out[0], *out[1:])
)
measured, bound = (logits(ids) - before).abs().max().item(), $MOVED * before.std().item()
assert measured <= bound, f"no norm before the head: a stream 8 times as large moves {measured:.3g}"
""",
    _whole_block,
    fresh=True,
)
IN_ORDER = Relation(
    """
given, gave = [], []
def keep(m, args, out):
    given.append(args[0])
    gave.append(out if torch.is_tensor(out) else out[0])
for layer in model.get_submodule("$row").children():
    layer.register_forward_hook(keep)
logits(torch.tensor($ids))
deaf = [i for i in range(1, len(given)) if not torch.equal(given[i], gave[i - 1])]
assert not deaf, f"blocks {deaf} do not read what the block before gave"
""",
    _whole_block,
    fresh=True,
)
RUN_ORDER = Relation(
    """
ran = []
for i, layer in enumerate(model.get_submodule("$row").children()):
    layer.register_forward_pre_hook(lambda m, args, i=i: ran.append(i))
logits(torch.tensor($ids))
assert ran == sorted(ran), f"blocks run in the order {ran}"
""",
    _whole_block,
    fresh=True,
)
ONE_STREAM = Relation(
    """
read = {}
for path in ("$one", "$other"):
    def keep(m, args, path=path):
        read[path] = args[0]
    model.get_submodule(path).register_forward_pre_hook(keep)
logits(torch.tensor($ids))
one, other = read.values()
measured, bound = (one - other).abs().max().item(), $EQUAL * one.abs().max().item()
assert measured <= bound, f"$one and $other read two streams, {measured:.3g} apart"
""",
    _pairs,
)

PARTS: dict[str, list[Relation]] = {
    "norm.formula": [SCALE_FREE, CENTRES],
    "norm.epsilon": [ZEROS, EPSILON],
    "norm.gain": [GAIN],
    "norm.per_position": [NORM_ALONE],
    "norm.streams": [ONE_STREAM],
    "feed_forward.position_wise": [FEED_ALONE],
    "feed_forward.nonlinear": [BENDS],
    "feed_forward.branches": [TAKES_PART, GATE_BENDS, MEET],
    "feed_forward.form": [GATED],
    "residual.identity": [HANDED_ON],
    "residual.sum": [ADDED],
    "residual.branches": [ONCE],
    "assembly.final_norm": [CALLED, FINAL_NORM],
    "assembly.order": [CALLED, RUN_ORDER, IN_ORDER],
}
