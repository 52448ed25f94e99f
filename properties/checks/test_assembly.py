"""How a subject is put together: blocks in their order, and a norm before the head (GPT-1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from theodolite.fixtures.anatomy.blocks import blocks_in, last_of, passed
from theodolite.fixtures.anatomy.norm import is_norm
from theodolite.fixtures.judging.judgement import not_applicable
from theodolite.fixtures.recording.exchange import results_exchanged
from theodolite.fixtures.recording.forward import Forward
from theodolite.fixtures.recording.observation import ModuleCall, is_inside
from theodolite.fixtures.subject.declarations import expanded
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_LARGER = 8.0


@check(
    "assembly.final_norm",
    "RES-5",
    "GPT-1",
    component="norm",
    views=("sharpened",),
    budget="standard",
)
def test_the_head_reads_a_normalised_stream(view: View) -> None:
    """Eight times the last block's output gives the same logits: a norm stands before the head.

    A model that is meant to have none is declared so, and then has none.
    """
    blocks, inside = blocks_in(view)
    declared = expanded(view.subject.declarations).get("final_norm")
    if not any(is_norm(each.module, each.given) for each in inside.calls):
        not_applicable("no module is a norm")
    end = last_of(inside, blocks)
    runs = sum(each.path == end for each in inside.calls)

    def enlarge(given: Tensor | None, output: Any) -> Any:
        nonlocal runs
        runs -= 1
        if runs:  # a block that runs again: its last result alone meets the head
            return output
        if blocks[-1].added and given is not None:  # to its input, which is to grow as well
            return output * _LARGER + given * (_LARGER - 1)
        if isinstance(output, Tensor):
            return output * _LARGER
        return type(output)((output[0] * _LARGER, *output[1:]))

    before = view.logits(inside.ids)
    with results_exchanged(view.model, {end: enlarge}):
        after = view.logits(inside.ids)
    changed = float((after - before).abs().max()) > 0.05 * view.spread
    if declared is False:
        view.require(
            changed,
            "no norm stands before the head, as declared",
            fails="A norm stands before the head, though none is declared",
        )
        return
    if declared is None and changed and _ends_normalised(inside, end):
        not_applicable("the last block ends in a norm (post-norm)")
    if declared is None and changed and _head_reads_a_norm(inside, end):
        not_applicable("the head reads a norm that reads more than the last block's output")
    idle = _idle_norms(view.model, inside)
    view.same(
        after,
        before,
        "the stream is normalised once more before the head",
        fails="Multiplying the last block's output by 8 changes the logits by {measured}: no "
        "norm stands before the head",
        bound=0.05 * view.spread,
        where={"idle": ", ".join(idle)} if idle else {},
        remedy=f"{', '.join(idle)} never runs: is the final norm left out?"
        if idle
        else "Pre-norm needs a final norm, since the stream grows with depth; if there is to be "
        "none, declare it (--declare final_norm=false).",
        cause="no-final-norm",
    )


@check("assembly.order", "GPT-1", component="residual", views=("sharpened",))
def test_blocks_run_in_order_each_on_what_the_one_before_gave(view: View) -> None:
    """Embedding, block 0, block 1 ...: each block is given its predecessor's output."""
    blocks, inside = blocks_in(view)
    row = view.model.get_submodule(blocks[0].path.rpartition(".")[0])
    ran = [each for each in inside.calls if each.module in set(row.children())]
    names = [int(each.path.rpartition(".")[2]) for each in sorted(ran, key=lambda e: e.began)]
    idle = [name for name, _ in row.named_children() if name.isdigit() and int(name) not in names]
    view.require(
        not idle,
        "every block runs",
        fails="Block {idle} is built and never runs",
        where={"idle": ", ".join(idle)},
        remedy="It is built and never called.",
        cause="block-skipped",
    )
    view.require(
        names == sorted(names) or len(names) > len(set(names)),
        "blocks run in their order",
        fails="Blocks run in the order {order}, not in that of their names",
        where={"order": " ".join(map(str, names))},
        cause="blocks-out-of-order",
    )
    inputs = [through for block in blocks if (through := passed(inside, block))]
    deaf = [
        layer
        for layer in range(2, len(inputs))
        if bool((inputs[layer][0] == inputs[0][0]).all())
        or bool((inputs[layer][0] == inputs[layer - 1][0]).all())
    ]
    view.require(
        not deaf,
        "each block reads what the block before it gave",
        fails="Block {layer} does not read what the block before it gave",
        where={"layer": deaf[0] if deaf else None},
        remedy="Its input is an earlier block's: is the result of the loop assigned?",
        cause="block-bypassed",
    )


def _head_reads_a_norm(inside: Forward, end: str) -> bool:
    """Whether what ran last was given just what a norm after the last block gave."""
    last = max((each for each in inside.calls if each.given is not None), key=_began)
    ended = max(each.began for each in inside.calls if is_inside(each.path, end))
    return any(
        each.gave is not None and last.given is not None and torch.equal(each.gave, last.given)
        for each in inside.calls
        if each.began > ended and each is not last and is_norm(each.module, each.given)
    )


def _began(call: ModuleCall) -> int:
    return call.began


def _ends_normalised(inside: Forward, path: str) -> bool:
    """Whether what the block at `path` gave is what a norm in it gave."""
    call: ModuleCall = next(each for each in inside.calls if each.path == path)
    return any(
        each.gave is not None and call.gave is not None and torch.equal(each.gave, call.gave)
        for each in inside.within(path)
        if is_norm(each.module, each.given)
    )


def _idle_norms(model: nn.Module, inside: Forward) -> list[str]:
    ran = {each.path for each in inside.calls}
    return [p for p, module in model.named_modules() if p not in ran and is_norm(module)]
