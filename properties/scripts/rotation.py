"""Relations of rotation: what queries, keys and values of one repeated token do with position."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.fixtures.anatomy.attentions import is_still
from theodolite.fixtures.anatomy.rotation import turning
from theodolite.properties.scripts.attention import QK, VALUES, constant, watching
from theodolite.properties.scripts.relation import Case, Relation, of_cause
from theodolite.properties.scripts.scene import Scene


def _pairs(scene: Scene) -> Iterator[Case]:
    calls = scene.subject.views.sharpened.insides.constant.recording.calls
    turn = next((t for c in calls if is_still(c) and (t := turning(c.query)) is not None), None)
    if turn is None:
        return
    channels = f"[..., {turn.offset}:{turn.offset + turn.width}]"
    if turn.offset == 0 and turn.width == calls[0].query.shape[-1]:
        channels = ""
    pairs = {
        "half": f"torch.complex(*q[0, 0]{channels}.chunk(2, -1))",
        "interleaved": f"torch.view_as_complex(q[0, 0]{channels}.unflatten(-1, (-1, 2)).clone())",
    }
    for case in constant(scene):
        yield {**case, "pairs": pairs[turn.pairing]}


def _learned(scene: Scene) -> Iterator[Case]:
    name = scene.check.where.get("parameter")
    if name:
        yield {"name": name}


TOEPLITZ = watching(
    QK
    + """s = q @ k.mT  # of one token repeated: it may depend on the distance alone
measured = (s[..., 1:, 1:] - s[..., :-1, :-1]).abs().max().item()
bound = $EQUAL * s.abs().max().item()
assert measured <= bound, f"q·k at one distance differs by {measured:.3g} from place to place\"""",
    constant,
)
AT_ZERO = watching(
    QK
    + """def unturned(x):  # position 0 turns by nothing: there stands what a projection gave
    rows = [o.unfold(0, x.shape[-1], 1) for o in outputs if len(o) >= x.shape[-1]]
    return min((r - x[0, 0, 0]).abs().amax(-1).min().item() for r in rows) <= $EQUAL * x.abs().max()
assert unturned(q) == unturned(k), "queries and keys are turned by different positions\"""",
    constant,
    hooks="""outputs = []
for m in (m for m in model.modules() if isinstance(m, torch.nn.Linear)):
    m.register_forward_hook(lambda m, args, out: outputs.append(out[0, 0]))
""",
)
STILL = watching(
    VALUES
    + """measured, bound = (v - v[..., :1, :]).abs().max().item(), $EQUAL * v.abs().max().item()
assert measured <= bound, f"values of one token repeated vary with position, by {measured:.3g}\"""",
    constant,
)
TURNS = watching(
    QK
    + """turned = (q[..., 1:, :] - q[..., :1, :]).abs().max().item()
least = $EQUAL * q.abs().max().item()
assert turned > least, "queries of one token repeated do not turn along the sequence\"""",
    constant,
)
FIRST_RADIAN = watching(
    QK
    + """pairs = $pairs
theta = (pairs[1] / pairs[0]).angle().abs()
measured, bound = (theta[0] - 1).abs().item(), $PHASE
assert measured <= bound, f"the first pair turns by {theta[0]:.4g} a position, not by 1\"""",
    of_cause("frequency-index-shifted", "frequencies-too-fast")(_pairs),
)
GEOMETRIC = watching(
    QK
    + """pairs = $pairs
theta = (pairs[1] / pairs[0]).angle().abs()
expected = theta[:-1] * theta[1] / theta[0]  # each falls as the second does
measured, bound = (theta[1:] - expected).abs().max().item(), $PHASE
assert measured <= bound, f"frequencies {theta.tolist()} do not fall by one factor\"""",
    of_cause("frequencies-not-geometric")(_pairs),
)
FALLING = watching(
    QK
    + """pairs = $pairs
theta = (pairs[1] / pairs[0]).angle().abs()
measured, bound = theta.diff().max().item(), $PHASE
assert measured <= bound, f"frequencies {theta.tolist()} do not fall\"""",
    of_cause("frequencies-out-of-order")(_pairs),
)
EVEN = watching(
    QK
    + """pairs = $pairs
turn = pairs[1:] / pairs[:-1]  # from each position to the next
measured, bound = (turn / turn[:1]).angle().abs().max().item(), $PHASE
assert measured <= bound, f"the angle from one position to the next varies by {measured:.3g}\"""",
    of_cause("table-uneven")(_pairs),
)
FIXED = Relation(
    """
trained = [name for name, p in model.named_parameters() if p.requires_grad]
assert "$name" not in trained, "$name, the frequencies, would be trained"
""",
    of_cause("frequencies-learned")(_learned),
)

TURNED: dict[str, list[Relation]] = {
    "rope.relative": [TOEPLITZ],
    "rope.same_positions": [AT_ZERO],
    "rope.values_still": [STILL],
    "rope.along_sequence": [TURNS, TOEPLITZ],
    "rope.frequencies": [FIRST_RADIAN, GEOMETRIC, FALLING],
    "rope.table": [EVEN, FIXED],
}
