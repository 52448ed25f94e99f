"""Which relations show a failed check, by the check's id."""

from __future__ import annotations

from theodolite.properties.scripts.attention import ATTENDED
from theodolite.properties.scripts.cache import CACHED
from theodolite.properties.scripts.experts import EXPERTS
from theodolite.properties.scripts.generation import GENERATED
from theodolite.properties.scripts.gradients import LEARNED
from theodolite.properties.scripts.loss import LOST
from theodolite.properties.scripts.outputs import OUTPUTS
from theodolite.properties.scripts.padding import PADDED
from theodolite.properties.scripts.parts import PARTS
from theodolite.properties.scripts.precision import HALVED
from theodolite.properties.scripts.relation import Relation
from theodolite.properties.scripts.rotation import TURNED
from theodolite.properties.scripts.state import STEADY

RELATIONS: dict[str, list[Relation]] = {
    **OUTPUTS,
    **STEADY,
    **PADDED,
    **CACHED,
    **GENERATED,
    **LEARNED,
    **LOST,
    **ATTENDED,
    **TURNED,
    **PARTS,
    **EXPERTS,
    **HALVED,
}
