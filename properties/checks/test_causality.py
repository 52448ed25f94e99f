"""ATT-4 and its control ATT-5: the output at t is a function of the tokens up to t, all of them."""

from __future__ import annotations

from functools import partial

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.anatomy.sight import read_sight
from theodolite.fixtures.judging.judgement import not_applicable, require
from theodolite.fixtures.judging.tolerances import GRADIENT
from theodolite.fixtures.oracles.strategies import drawn
from theodolite.fixtures.recording.exchange import result_as_leaf
from theodolite.fixtures.relations.blame import Guilty, leak_of, length_fault
from theodolite.fixtures.relations.changed_tokens import changed_after, influence
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_DETACHED = "no gradient reaches the embeddings (inference mode, or detached)"

REMEDY = {
    "as given": "is the mask applied, on the key axis, before softmax?",
    "sharpened": "is the mask applied, on the key axis, before softmax?",
    "train mode": "eval mode may be right: which branch runs only while training?",
    "all-ones mask": "an all-ones padding mask must not replace the causal mask",
    "amplified": "a finite fill such as -1e4 is too small: use -inf or the dtype's least number",
    "other backend": "one backend is causal and the other is not: is the mask passed to both?",
}


@check(
    "causality.perturb",
    "ATT-4",
    component="mask",
    views=(
        "as given",
        "sharpened",
        "train mode",
        "all-ones mask",
        "amplified",
        "other backend",
    ),
)
def test_a_later_token_never_changes_an_earlier_logit(view: View) -> None:
    """Change every token after a cut, at each cut at once; logits up to the cut stay."""
    cuts = torch.arange(view.length - 1) if view.length > 1 else torch.tensor([])
    if not len(cuts):
        not_applicable("the model takes single tokens only")
    ids, changed, agreeing = changed_after(view, cuts)
    _judge_agreement(view, ids, changed, agreeing)


@check("causality.shapes", "ATT-4", component="mask", budget="standard")
@drawn(max_examples=8, length=st.integers(2, 24), batch=st.integers(1, 3), seed=st.integers(0, 99))
def test_causality_holds_at_every_length(view: View, length: int, batch: int, seed: int) -> None:
    """Whatever the length, a change of the second half leaves the first half alone."""
    if not view.subject.shortest <= length <= (view.subject.longest or length):
        length = view.length
    ids = view.random_ids(batch, length, seed=seed)
    agreeing = torch.zeros(ids.shape, dtype=torch.bool)
    agreeing[:, : (length + 1) // 2] = True
    changed = torch.where(agreeing, ids, view.subject.other_ids(ids))
    _judge_agreement(view, ids, changed, agreeing)


@check(
    "causality.prefix",
    "ATT-4",
    "AUD-2",
    component="mask",
    views=(
        "as given",
        "sharpened",
        "all-ones mask",
        "other backend",
    ),
    budget="standard",
)
def test_logits_of_a_prefix_are_the_prefix_of_the_logits(view: View) -> None:
    """Cut the sequence short, at odd and even lengths: what remains gives the same logits."""
    if view.subject.convention.only_length is not None:
        not_applicable(f"the model runs at length {view.subject.convention.only_length} alone")
    ids = view.random_ids(2)
    full = view.logits(ids)
    for cut in sorted({1, 2, view.length // 2, view.length - 3, view.length - 1}):
        if not view.subject.shortest <= cut < view.length:
            continue
        view.same(
            view.logits(ids[:, :cut]),
            full[:, :cut],
            f"the first {cut} tokens alone give the first {cut} logits",
            fails=f"The first {cut} tokens alone give logits that are off by {{measured}} from "
            f"the first {cut} of the whole text",
            where={"length": cut},
            remedy=f"{REMEDY[view.name]} Or does something depend on the length itself (a scale, a "
            "mean over time, positions counted from the end)?",
            blame=partial(_leak_or_length, view, ids, cut),
        )


@check(
    "causality.gradient",
    "ATT-4",
    component="mask",
    views=(
        "as given",
        "sharpened",
        "train mode",
        "all-ones mask",
        "other backend",
    ),
    budget="standard",
)
def test_no_gradient_flows_from_a_logit_to_a_later_token(view: View) -> None:
    """The gradient of position t with respect to embeddings after t is exactly 0."""
    ids = view.random_ids(1).expand(view.length, -1)
    embedding = view.insides.random.embedding()
    if embedding is None:
        not_applicable(_DETACHED)
    positions = torch.arange(view.length)
    size = torch.cat(
        [
            _felt(view, embedding.path, ids[part], positions[part])
            for part in view.subject.portions(ids)
        ]
    )
    view.same(
        size.triu(1),
        0.0,
        "the gradient of a logit with respect to later embeddings is 0",
        fails="The logits at position {position} have a gradient of {measured} with respect to "
        "the embedding at the later position {later}; it must be 0",
        bound=GRADIENT * float(size.max()),
        axes=("position", "later"),
        remedy=REMEDY[view.name],
        blame=partial(leak_of, view),
    )


def _felt(view: View, embedding: str, ids: Tensor, positions: Tensor) -> Tensor:
    """How strongly the logits at one position of each row feel each embedding of it, (B, T)."""
    with view.running():  # what is computed anew for backward, checkpoints, in the same mode
        with result_as_leaf(view.model, embedding) as leaves:
            logits = view.logits(ids, gradient=True)
        if not leaves or not logits.requires_grad:
            not_applicable(_DETACHED)
        direction = torch.randn(logits.shape[-1], generator=torch.Generator().manual_seed(0))
        projected = (logits[torch.arange(len(ids)), positions] * direction.to(logits)).sum()
        # (B, T, d): row, position; None where the embeddings are detached from the logits
        try:
            gradient = torch.autograd.grad(projected, leaves[0], allow_unused=True)[0]
        except RuntimeError as error:
            not_applicable(f"not judged: backward raised {error} (see gradient.every_parameter)")
    if gradient is None:
        not_applicable("no gradient reaches the embeddings (detached)")
    return gradient.double().abs().amax(-1)


@check("causality.past", "ATT-5", component="attention", views=("sharpened",))
def test_every_earlier_token_changes_later_logits(view: View) -> None:
    """The control: change one token, and logits after it move, from the first to the last.

    A band that is the same at every position is a sliding window (dilated, if with gaps), blocks
    along the diagonal are chunks, and the first tokens may be kept in sight of all: designs, not
    faults.
    """
    if view.length == 1:
        not_applicable("the model takes single tokens only")
    moved = sum(influence(view, seed=seed) for seed in (0, 7)) > 0  # (T, T): token s moves logit t
    moved = torch.as_tensor(moved)
    past = torch.ones_like(moved).triu(1)
    view.require(
        bool((moved & past).any()),
        "an earlier token changes later logits",
        fails="No earlier token changes any later logit: the model does not look back",
        remedy="does the attention's output reach the residual stream?",
        blame=partial(leak_of, view),  # a mask that is turned round shows the future instead
        cause="no-past",
    )
    dead = (past & ~moved).nonzero()
    if len(dead) and not (_is_window(moved) or read_sight(_visible(moved)).chunk):
        token, position = dead[0].tolist()
        require(
            False,
            "every earlier token changes every later logit",
            fails="The token at position {token} does not change the logits at position "
            "{position}, {measured} such pairs in all",
            measured=float(len(dead)),
            at_most=0.0,
            where={"view": view.name, "token": token, "position": position},
            remedy="is the mask too strict (aligned to the wrong corner), or a key overwritten?",
            cause="past-hidden",
        )


def _leak_or_length(view: View, ids: Tensor, cut: int) -> Guilty | None:
    return leak_of(view) or length_fault(view, ids, cut)


def _judge_agreement(view: View, ids: Tensor, changed: Tensor, agreeing: Tensor) -> None:
    moves = view.moves(ids, changed)
    gap = torch.where(agreeing.to(moves.device), moves, torch.zeros_like(moves))
    view.same(
        gap,
        0.0,
        "tokens after a position do not change its logits",
        fails="Changing later tokens changes the logits at position {position} by {measured}; "
        "they must not change at all",
        bound=view.leak_bound,
        remedy=REMEDY[view.name],
        blame=partial(leak_of, view),
    )


def _visible(moved: Tensor) -> Tensor:
    """(T, T) booleans: whether position t feels token s <= t, its own token always."""
    own = torch.eye(len(moved), dtype=torch.bool, device=moved.device)
    return (moved.T | own).tril()


def _is_window(moved: Tensor) -> bool:
    """Whether influence depends on the distance alone, past any first tokens that reach all.

    Distances that are all multiples of the least are a dilated window. One at which a token would
    reach, although it does not reach a shorter one, is none.
    """
    past = torch.ones_like(moved).triu(1)
    everywhere = (moved | ~past).all(1)
    first = int(everywhere.cumprod(0)[:-2].sum())
    rest = moved[first:, first:]
    bands = [rest.diagonal(k) for k in range(1, len(rest))]
    reached = [k for k, band in enumerate(bands, start=1) if bool(band.any())]
    if not reached or not all(bool(bands[k - 1].all()) for k in reached):
        return False
    step = reached[0]
    return reached == list(range(step, reached[-1] + 1, step))
