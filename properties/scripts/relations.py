"""Which relations show a failed check, by the check's id."""

from __future__ import annotations

from theodolite.properties.scripts.attended import ATTENDED
from theodolite.properties.scripts.cached import CACHED
from theodolite.properties.scripts.experts import EXPERTS
from theodolite.properties.scripts.generated import GENERATED
from theodolite.properties.scripts.halved import HALVED
from theodolite.properties.scripts.learned import LEARNED
from theodolite.properties.scripts.lost import LOST
from theodolite.properties.scripts.outputs import OUTPUTS
from theodolite.properties.scripts.padded import PADDED
from theodolite.properties.scripts.parts import PARTS
from theodolite.properties.scripts.relation import Relation
from theodolite.properties.scripts.steady import STEADY
from theodolite.properties.scripts.turned import TURNED

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
