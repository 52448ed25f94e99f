"""Faults of mixtures of experts."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.properties.mutants.places import Experts, Pair, Router, experts, router
from theodolite.properties.mutants.registry import source


@router(
    "routing-weights-across-tokens",
    "AUD-3",
    "batch.independence length.shortest",
    source="databricks/megablocks#87",
)
def _(own: Router) -> Pair:
    """Weights are divided by their sum over the tokens."""
    weights, chosen = own()
    return weights / weights.norm(dim=0, keepdim=True), chosen


@router("one-expert-fewer", "FFN-1", "experts.active experts.normalised", source="JieShibo/MoLE#7")
def _(own: Router) -> Pair:
    """Only the best expert of each token works, though more are declared."""
    weights, chosen = own()
    return torch.cat((weights[:, :1], weights[:, 1:] * 0), -1), chosen


@router("router-without-gradient", "AUD-12", "gradient.every_parameter", component="gradient")
def _(own: Router) -> Pair:
    """Routing weights are detached: the router never learns."""
    weights, chosen = own()
    return weights.detach(), chosen


@router("router-sends-all-to-the-first", "AUD-12", "experts.reached")
def _(own: Router) -> Pair:
    """Every token goes through the first experts; the others never work."""
    weights, chosen = own()
    return weights, torch.arange(own.k).expand_as(chosen)


@router("router-centres-over-tokens", "AUD-3", "batch.independence", often="mixture")
def _(own: Router) -> Pair:
    """Router logits are centred over all tokens of the batch before they are ranked."""
    return own(logits=own.logits - own.logits.mean(0, keepdim=True))


@router("router-by-place", "FFN-1", "batch.independence", also="batch")
def _(own: Router) -> Pair:
    """Experts are handed out in turn, by the place of a token in the batch."""
    weights, chosen = own()
    turn = torch.arange(len(own.logits))[:, None] + torch.arange(own.k)
    return weights, (turn % own.logits.shape[-1]).to(chosen.dtype)


@experts("tokens-beyond-capacity-dropped", "AUD-3", "batch.independence")
def _(own: Experts) -> Tensor:
    """Each expert has room for a third of the tokens; those that come later get nothing."""
    room = max(1, len(own.x) // 3)
    taken = torch.nn.functional.one_hot(own.chosen.flatten()).cumsum(0)
    place = taken.gather(1, own.chosen.flatten()[:, None]).view_as(own.chosen)
    return own(weights=own.weights * (place <= room))


@router("shares-in-another-order", "FFN-2", "experts.shares")
def _(own: Router) -> Pair:
    """The best expert gets the smallest share, and the last of the chosen ones the largest."""
    shares, chosen = own()
    return shares.flip(-1), chosen


# -- in the text of hosts ---------------------------------------------------------------


source("shares-not-divided-by-their-sum", "FFN-2", "experts.normalised", component="moe",
    says="The shares of the chosen experts are not divided by their sum, though "
         "they are declared to be.")  # fmt: skip
source("shares-divided-though-declared-not", "FFN-2", "experts.normalised", component="moe",
    says="The shares of the chosen experts are divided by their sum, though they "
         "are declared not to be.")  # fmt: skip
source("one-expert-more", "FFN-2", "experts.active", component="moe",
    says="One expert more works on each token than is declared.")  # fmt: skip
source("router-softmax-over-tokens", "AUD-3", "batch.independence", component="moe",
    says="The router's softmax runs over the tokens.")  # fmt: skip
source("router-detached", "AUD-12", "experts.router", component="moe",
    says="Shares are detached: the router never learns.")  # fmt: skip
source("equal-shares", "AUD-12", "experts.router", component="moe",
    says="All chosen experts get the same share: the router never learns.")  # fmt: skip
source("one-share-divided-by-itself", "AUD-12", "experts.router", component="moe",
    says="One expert is chosen and its share divided by itself: the router never "
         "learns.")  # fmt: skip
source("last-expert-never-called", "AUD-12", "experts.reached", component="moe",
    says="The loop over the experts ends one too early.")  # fmt: skip
source("first-expert-never-called", "AUD-12", "experts.reached", component="moe",
    says="The loop over the experts begins one too late.")  # fmt: skip
source("one-expert-for-all", "AUD-12", "experts.router", component="moe",
    says="All experts are one network.")  # fmt: skip
source("shares-squared", "FFN-2", "experts.normalised", component="moe",
    says="Shares are squared after they were divided by their sum.")  # fmt: skip
source("shared-network-left-out", "FFN-2", "declared.feed_forward", component="moe",
    says="The network that works on every token is built and left out.")  # fmt: skip
