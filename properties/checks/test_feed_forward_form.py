"""FFN-2 on a subject: of two branches one is activated, and not their product, nor both."""

from __future__ import annotations

from theodolite.fixtures.anatomy.feed_forward_kinds import misformed, networks_of
from theodolite.fixtures.judging.judgement import fail, not_applicable, require
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("feed_forward.form", "FFN-2", component="feed_forward", views=("sharpened",))
def test_one_branch_of_a_gated_network_is_activated_and_the_other_multiplies_it(view: View) -> None:
    """What the last matrix reads is act(W₁x) ⊙ W₃x, and neither act(W₁x ⊙ W₃x) nor act ⊙ act."""
    inside = view.insides.random
    for found in misformed(inside):
        fail(
            "the activation stands on one of two branches",
            fails="The activation wraps the product of the two branches"
            if found.form == "act(a·b)"
            else "Both branches are activated before they are multiplied",
            where={
                "view": view.name,
                "module": found.down.module,
                "weights": f"{found.first.weight} and {found.second.weight}",
                "measured": f"{found.form} with {found.activation}",
            },
            remedy="act(gate(x)) * up(x) is meant: one branch is activated, and multiplied by the "
            "other as it is.",
            cause="activation-of-the-product"
            if found.form == "act(a·b)"
            else "both-branches-activated",
        )
    gated = [n for networks in networks_of(inside).values() for n in networks if n.gated]
    if not gated:
        not_applicable("no feed-forward network with two branches was found")
    require(
        gated,
        "the activation stands on one of two branches",
        fails="No branch of a gated network is activated",
        where={"view": view.name},
    )
