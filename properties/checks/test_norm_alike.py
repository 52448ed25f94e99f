"""NORM-1 on a subject: the norms that stand at one place of every layer are alike."""

from __future__ import annotations

from theodolite.fixtures.anatomy.blocks import layer_path
from theodolite.fixtures.anatomy.norm import NormReading, norms_of
from theodolite.fixtures.judging.judgement import each, require
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_APART = 1.5
"""Ratio of two epsilons that are not one: they are read to a few hundredths of their size."""


@check("norm.alike", "NORM-1", component="norm", views=("sharpened",))
def test_norms_at_one_place_of_every_layer_are_alike(view: View) -> None:
    """Layer after layer the same norm, with the same epsilon: none has a reason of its own.

    Places are told by the names behind the number of the layer.
    """
    places: dict[tuple[str, str], list[NormReading]] = {}
    for norm in norms_of(view.insides.random):
        layer = layer_path(norm.path)
        if norm.kind in ("rms", "layer") and layer != norm.path:
            row = layer.rpartition(".")[0]
            places.setdefault((row, norm.path[len(layer) :]), []).append(norm)
    for (row, name), norms in each(places.items(), "no norm stands in every layer"):
        if len(norms) < 2:
            continue
        first = norms[0]
        for other in norms[1:]:
            where = {"view": view.name, "module": other.path, "other": first.path}
            require(
                other.kind == first.kind,
                f"the norms {row}.*{name} are of one kind",
                fails="One layer has a LayerNorm where another has an RMSNorm",
                where=where,
                remedy="Is the same class built for every layer?",
                cause="norms-of-two-kinds",
            )
            if first.eps is None or other.eps is None:
                continue
            least, most = sorted((first.eps, other.eps))
            require(
                most <= _APART * least or most == least,
                f"the norms {row}.*{name} have one epsilon",
                fails=f"Epsilon is {other.eps:.3g} in one layer and {first.eps:.3g} in another",
                where=where,
                remedy="Is eps passed to every norm, and not to some of them?",
                cause="epsilons-of-layers-differ",
            )
