"""Which relations show a failed check, by the check's id."""

from __future__ import annotations

from theodolite.reproduce.attended import ATTENDED
from theodolite.reproduce.cached import CACHED
from theodolite.reproduce.experts import EXPERTS
from theodolite.reproduce.generated import GENERATED
from theodolite.reproduce.halved import HALVED
from theodolite.reproduce.learned import LEARNED
from theodolite.reproduce.lost import LOST
from theodolite.reproduce.outputs import OUTPUTS
from theodolite.reproduce.padded import PADDED
from theodolite.reproduce.parts import PARTS
from theodolite.reproduce.relation import Relation
from theodolite.reproduce.steady import STEADY
from theodolite.reproduce.turned import TURNED

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
