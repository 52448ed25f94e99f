"""The residual stream of a subject, held to RES by running it with dead branches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from theodolite.fixtures.anatomy.blocks import (
    Block,
    Keeps,
    blocks_in,
    last_of,
    passed,
    run_watched,
    silenced,
    without_constant,
)
from theodolite.fixtures.anatomy.feed_forward import mixes_time_by_design
from theodolite.fixtures.anatomy.norm import is_norm
from theodolite.fixtures.judging.judgement import (
    each,
    judge,
    not_applicable,
    require,
)
from theodolite.fixtures.judging.tolerances import EQUAL, MULTIPLIER
from theodolite.fixtures.recording.forward import Forward
from theodolite.fixtures.recording.observation import ModuleCall, is_inside
from theodolite.fixtures.subject.declarations import expanded
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("residual.identity", "RES-1", "RES-4", component="residual", views=("sharpened",))
def test_blocks_with_nothing_to_say_hand_the_stream_on(view: View) -> None:
    """Every matrix of the blocks 0: each block gives what it was given, but for a constant.

    Judged before the final norm. Post-norm blocks normalise the stream by design, where a norm
    stands after the addition; a norm that stands before attention must be on the branch alone.
    """
    blocks, inside = blocks_in(view)
    with silenced(view, blocks, lambda *_: False):
        logits, seen = run_watched(view, inside.ids)
    judged = 0
    for layer, block in enumerate(blocks):
        where = {"view": view.name, "layer": layer, "module": block.path}
        through = passed(seen, block)
        if through is None or not bool(torch.isfinite(through[1]).all()):
            continue  # some attention cannot do with scores that are all 0
        given, gave = map(without_constant, through)
        size = float(given.abs().max())
        require(
            float(gave.abs().max()) > EQUAL * size,
            "a block whose branches are switched off hands its input on",
            fails="With its branches switched off, nothing arrives at the end of block {layer}: "
            "there is no skip",
            where=where,
            remedy="Nothing arrives at the end of the block: x + f(x), not f(x).",
            cause="no-skip",
        )
        away = float((gave - given).abs().max()) / size
        if away > EQUAL and not _is_pre_norm(view, inside, block, blocks):
            continue
        factors = (gave * given).sum((0, 1)) / given.square().sum((0, 1))  # (C,)
        scaled = float((gave - factors * given).abs().max()) <= EQUAL * size
        if away > EQUAL and scaled and _learns_factors(view.model):
            continue
        judged += 1
        judge(
            away,
            0.0,
            "a block whose branches are switched off hands on what it was given",
            fails="With its branches switched off, block {layer} changes the stream by "
            "{measured} of its size; it must hand it on as it is",
            bound=EQUAL,
            where=where,
            remedy="The sum is multiplied by a number: each block then fades what came before."
            if scaled
            else "The block's norms stand before its branches, and yet the stream comes out "
            "changed: x = norm(x); x = x + f(x) carries the normalised value, x + f(norm(x)) does "
            "not.",
            cause="stream-scaled" if scaled else "skip-carries-norm",
        )
    if not judged:
        not_applicable("the blocks normalise (post-norm) or rescale the stream by design")
    view.differ(
        logits[0, 0],
        logits[1, 0],
        "with all branches switched off the logits still depend on the token",
        fails="With the branches of all blocks switched off, the logits no longer depend on the "
        "token",
        remedy="Does the embedding reach the head along the skips?",
        cause="no-skip",
    )


@check("residual.sum", "RES-3", component="residual", views=("sharpened",))
def test_each_branch_adds_its_output_to_the_stream(view: View) -> None:
    """The matrices of the other branch 0: attention alone, or the rest alone, still adds something.

    A skip that starts at the block's input instead of attention's sum loses attention.
    """
    blocks, inside = blocks_in(view)
    if any(block.branch == block.path for block in blocks):
        not_applicable("attention is written in the block itself: no branch to tell from the rest")
    branches: dict[str, Keeps] = {
        "attention": lambda block, name: is_inside(name, block.branch),
        "the feed-forward network": lambda block, name: not is_inside(name, block.branch),
    }
    for which, kept in each(
        branches.items(), "no block has two branches with matrices of their own"
    ):
        alive = [block for block in blocks if _has_matrices(view.model, block, kept)]
        if not alive:
            continue
        with silenced(view, blocks, kept):
            _, seen = run_watched(view, inside.ids)
        for layer, block in enumerate(blocks):
            through = passed(seen, block)
            hybrid = mixes_time_by_design(view.model.get_submodule(block.path))
            if through is None or block not in alive or hybrid:
                continue
            given, gave = map(without_constant, through)
            away = gave - given
            if not bool(torch.isfinite(away).all()):
                continue
            require(
                float(away.abs().max()) > EQUAL * float(given.abs().max())
                or _has_zero_gates(view.model, block),
                f"what {which} computes is added to the stream",
                fails=f"What {which} computes in block {layer} never reaches the stream",
                measured=float(away.abs().max()),
                where={"view": view.name, "layer": layer, "module": block.path},
                remedy="Its output never reaches the block's: does the second skip start at the "
                "block's input instead of at the sum before it?"
                if which == "attention"
                else "Its output is computed and not added, or it is never called.",
                cause="branch-not-added",
            )


@check("residual.branches", "RES-3", "GPT-1", component="residual", views=("sharpened",))
def test_a_block_is_its_input_and_the_outputs_of_its_branches(view: View) -> None:
    """On random tokens: block(x) = x + attention's output + the other branch's, once each.

    Some designs multiply their branches; what none does is to add one twice, or never.
    """
    blocks, inside = blocks_in(view)
    for layer, block in each(
        enumerate(blocks), "branches pass a norm or a gate on their way to the stream"
    ):
        through = passed(inside, block)
        parts = _branches(inside, block)
        found = _multipliers(through[1] - through[0], parts) if through and parts else None
        if found is None:
            continue
        where = {"view": view.name, "layer": layer, "module": block.path}
        whole = torch.tensor([not part.is_leaf for part in parts])
        twice = (found - 2).abs() <= MULTIPLIER
        never = (found.abs() <= MULTIPLIER) & whole.to(found.device)  # a single layer may be a step
        require(
            not bool((twice | never).any()) or _has_zero_gates(view.model, block),
            "each branch of a block is added to the stream once",
            fails="The branches of block {layer} are added to the stream {times} times; each "
            "must be added once",
            where={**where, "times": " and ".join(f"{value:.3g}" for value in found.tolist())},
            remedy="Does a skip start at the block's input instead of at the sum before it?"
            if bool(never.any())
            else "One is added twice.",
            cause="branch-not-added" if bool(never.any()) else "branch-added-twice",
        )


def _is_pre_norm(view: View, inside: Forward, block: Block, blocks: list[Block]) -> bool:
    """Whether the stream ought to pass the block as it is: declared, or the norms stand so.

    They do where the block runs a norm of its own before attention, and one follows the last block.
    """
    declared = expanded(view.subject.declarations).get("placement")
    if declared is not None:
        return bool(declared != "post")
    config = getattr(view.subject.model, "config", None)
    if getattr(config, "apply_residual_connection_post_layernorm", False):
        return False
    attention = next(each for each in inside.calls if is_inside(each.path, block.branch))
    norms = [each for each in inside.calls if is_norm(each.module, each.given)]
    last = last_of(inside, blocks)
    end = max(each.began for each in inside.calls if is_inside(each.path, last))
    return any(norm.began > end for norm in norms) and any(
        is_inside(norm.path, block.path)
        and not is_inside(norm.path, block.branch)
        and norm.began < attention.began
        for norm in norms
    )


def _has_matrices(model: nn.Module, block: Block, kept: Keeps) -> bool:
    return any(
        parameter.ndim >= 2 and is_inside(name, block.path) and kept(block, name)
        for name, parameter in model.named_parameters()
    )


def _learns_factors(model: nn.Module) -> bool:
    """Whether numbers or vectors are learned that belong to no norm and no linear layer."""
    return any(
        parameter.ndim <= 1
        for module in model.modules()
        if not is_norm(module) and not isinstance(module, nn.Linear)
        for parameter in module.parameters(recurse=False)
        if all(other.ndim <= 1 for other in module.parameters(recurse=False))
    )


def _has_zero_gates(model: nn.Module, block: Block) -> bool:
    """Whether a number learned by the block is 0: branches may be multiplied by it (ReZero)."""
    own = model.get_submodule(block.path).parameters()
    return any(p.numel() == 1 and not bool(p.any()) for p in own)


def _branches(inside: Forward, block: Block) -> list[ModuleCall]:
    """What the block's own children that hold matrices gave to a stream, attention first.

    Of a block that runs again and again, in its first run.
    """
    calls = inside.within(block.path)
    end = next(place for place, each in enumerate(calls) if each.path == block.path)
    whole = calls[end].gave
    depth = block.path.count(".") + 1
    parts = [
        each
        for each in calls[:end]
        if each.path.count(".") == depth
        and each.gave is not None
        and whole is not None
        and each.gave.shape == whole.shape
        and any(p.ndim >= 2 for p in each.module.parameters())
    ]
    parts.sort(key=lambda each: each.path != block.branch)
    return parts


def _multipliers(change: Tensor, parts: list[ModuleCall]) -> Tensor | None:
    """The factors with which `parts` sum to `change`, (n,), or None if they do not."""
    gave = [part.gave.double().flatten() for part in parts if part.gave is not None]
    columns = torch.stack(gave, -1)
    found = torch.linalg.lstsq(columns, change.flatten()[:, None]).solution[:, 0]
    away = (columns @ found - change.flatten()).abs().max()
    return found if float(away) <= MULTIPLIER * float(change.abs().max()) else None
