"""Faults of z-loss, QK norm and soft-capping."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, stability


@mutant("z-loss-of-probabilities", "STAB-1", component="loss")
def _(patch: Patch) -> None:
    """It is taken of normalised log-probabilities, whose log-sum-exp is 0: it is always 0."""

    def z_loss(logits: Tensor, coefficient: float = 1e-4) -> Tensor:
        normalised = logits.log_softmax(dim=-1)
        return coefficient * torch.logsumexp(normalised, dim=-1).square().mean()

    patch.replace(stability.z_loss, z_loss)


@mutant("z-loss-squares-the-mean", "STAB-1", component="loss")
def _(patch: Patch) -> None:
    """Log-sum-exps of different signs cancel before they are squared."""

    def z_loss(logits: Tensor, coefficient: float = 1e-4) -> Tensor:
        return coefficient * torch.logsumexp(logits, dim=-1).mean().square()

    patch.replace(stability.z_loss, z_loss)


@mutant("z-loss-of-the-largest-logit", "STAB-1", component="loss")
def _(patch: Patch) -> None:
    """The largest logit stands for the log-sum-exp."""

    def z_loss(logits: Tensor, coefficient: float = 1e-4) -> Tensor:
        return coefficient * logits.amax(dim=-1).square().mean()

    patch.replace(stability.z_loss, z_loss)


def _replace_norms(patch: Patch, norms: Any) -> None:
    """Let ``norms(module, query, key)`` do what the two norms of queries and keys should."""
    original = attention.MultiHeadAttention.project

    def project(self: attention.MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = original(self, x)
        if isinstance(self.query_norm, torch.nn.Identity):
            return query, key, value
        joined = self.qkv(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
        raw_query, raw_key, _ = joined.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return (*norms(self, raw_query, raw_key), value)

    patch.method(attention.MultiHeadAttention, "project", project)


@mutant("qk-norm-on-queries-alone", "STAB-2 STAB-4", component="norm")
def _(patch: Patch) -> None:
    """Keys stay as they are."""
    _replace_norms(patch, lambda self, query, key: (self.query_norm(query), key))


@mutant("qk-norm-missing", "STAB-2", component="norm")
def _(patch: Patch) -> None:
    """The norms are built and never called."""
    _replace_norms(patch, lambda self, query, key: (query, key))  # noqa: ARG005 - the fault


@mutant("qk-norm-over-positions", "STAB-2", component="norm")
def _(patch: Patch) -> None:
    """Each channel is normalised over time instead of each position over its channels."""

    def over_time(x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-2, keepdim=True) + 1e-5)

    _replace_norms(patch, lambda self, query, key: (over_time(query), over_time(key)))  # noqa: ARG005


@mutant("qk-norm-over-all-heads", "STAB-2", component="norm")
def _(patch: Patch) -> None:
    """All heads of a position share one norm, so a loud head stays loud."""

    def over_heads(x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=(1, -1), keepdim=True) + 1e-5)

    _replace_norms(patch, lambda self, query, key: (over_heads(query), over_heads(key)))  # noqa: ARG005


@mutant("soft-cap-clamps", "STAB-3", component="scale")
def _(patch: Patch) -> None:
    """Scores beyond the cap are cut off: all alike, and without a gradient."""
    patch.replace(stability.soft_cap, lambda x, cap: x.clamp(-cap, cap))


@mutant("soft-cap-without-division", "STAB-3", component="scale")
def _(patch: Patch) -> None:
    """cap·tanh(x): small scores are multiplied by the cap."""
    patch.replace(stability.soft_cap, lambda x, cap: cap * torch.tanh(x))


@mutant("soft-cap-without-cap", "STAB-3 STAB-4", component="scale")
def _(patch: Patch) -> None:
    """Scores are passed on as they are."""
    patch.replace(stability.soft_cap, lambda x, cap: x)  # noqa: ARG005 - the fault


@mutant("soft-cap-rational", "STAB-3", component="scale")
def _(patch: Patch) -> None:
    """x/(1 + |x|/cap): bounded and rising, but a quadratic way off for small scores."""
    patch.replace(stability.soft_cap, lambda x, cap: x / (1 + x.abs() / cap))


@mutant("soft-cap-before-the-scale", "STAB-3", component="scale")
def _(patch: Patch) -> None:
    """Products are capped before they are divided by √d."""

    def attention_scores(
        query: Tensor, key: Tensor, *, scale: float | None = None, softcap: float | None = None
    ) -> Tensor:
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        products = query @ key.transpose(-2, -1)
        return scale * (products if softcap is None else stability.soft_cap(products, softcap))

    patch.replace(attention.attention_scores, attention_scores)


@mutant("softmax-of-standardised-scores", "STAB-4", component="softmax")
def _(patch: Patch) -> None:
    """Each row is divided by its standard deviation first: the scale is lost."""
    original = attention.attention_weights

    def attention_weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        return original(scores / scores.std(dim=-1, keepdim=True), visible)

    patch.replace(attention.attention_weights, attention_weights)
