"""RES-4 on a subject: the branches of a part read the same normalised stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from theodolite.fixtures.anatomy.feed_forward_kinds import networks_of
from theodolite.fixtures.anatomy.streams import is_norm_of
from theodolite.fixtures.judging.judgement import each, require
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("norm.streams", "RES-4", component="norm", views=("sharpened",))
def test_all_branches_of_a_part_read_the_normalised_stream(view: View) -> None:
    """Where queries, or one branch of a gated network, read a norm, the others read it too."""
    for place, streams in each(_parts(view), "what is projected is not visible"):
        raw = {
            name: other
            for name, stream in streams.items()
            for other, normed in streams.items()
            if is_norm_of(normed, stream)
        }
        require(
            not raw,
            f"{_listed(list(streams))} are made of one normalised stream",
            fails=f"{_listed(list(raw)).capitalize()} read the residual stream as it is, and "
            f"{_listed(sorted(set(raw.values())))} its norm",
            where={"view": view.name, **place},
            remedy="Hand the norm's output to each of them.",
            cause="stream-not-normalised",
        )


def _parts(view: View) -> Iterator[tuple[dict[str, Any], Mapping[str, Tensor]]]:
    """What each attention and each gated network reads, by the name of what is made of it."""
    inside = view.insides.random
    for call in inside.recording.calls:
        streams = {"queries": call.stream, "keys": call.key_stream, "values": call.value_stream}
        seen = {name: stream for name, stream in streams.items() if stream is not None}
        if len(seen) > 1:
            yield inside.place(call), seen
    for path, networks in networks_of(inside).items():
        for network in networks:
            if network.gated and len(network.ups) > 1:
                gate, up = network.ups
                yield (
                    {"module": path, "weight": up.weight},
                    {"the gate": gate.input, "the other branch": up.input},
                )


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
