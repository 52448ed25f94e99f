"""Self-attention: an average of values whose weights the data choose (claims ATT, SCL, MHA).

``softmax(Q Kᵀ / √d_head + M) V``, with M = -inf wherever a query may not look. Written out first,
then through torch's fused operator, then with many heads.

Vaswani et al. 2017, "Attention Is All You Need"; Ainslie et al. 2023 (grouped queries).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from theodolite.reference.cache import LayerCache
from theodolite.reference.config import head_shape
from theodolite.reference.norm import RMSNorm
from theodolite.reference.rotary import Rotation, apply_rotation
from theodolite.reference.stability import soft_cap


def causal_mask(
    queries: int, keys: int | None = None, *, device: torch.device | None = None
) -> Tensor:
    """True where a query may look: at its own position and before. Shape (queries, keys).

    With more keys than queries the queries are the last ones: query i stands at keys - queries + i.
    """
    keys = queries if keys is None else keys
    everything = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return everything.tril(diagonal=keys - queries)


def attention_scores(
    query: Tensor, key: Tensor, *, scale: float | None = None, softcap: float | None = None
) -> Tensor:
    """How well each key answers each query, before mask and softmax.

    Args:
        query: (..., T, d).
        key: (..., S, d).
        scale: Factor on q·k; None for 1/√d, which brings the variance back to 1 (claim SCL-2).
        softcap: Bound the scores by softcap·tanh(score / softcap) (claim STAB-3).

    Returns:
        Scores, (..., T, S).
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale  # (..., T, d) @ (..., d, S) -> (..., T, S)
    return scores if softcap is None else soft_cap(scores, softcap)


def attention_weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
    """Softmax over the keys, with the mask put in before it: each row sums to 1.

    Args:
        scores: (..., T, S).
        visible: True where a query may look, broadcast to (..., T, S); None for everywhere.
            Every query must see at least one key: the softmax of an empty row is 0/0, NaN.

    Returns:
        Weights, (..., T, S): exactly 0 wherever `visible` is False.
    """
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores.softmax(dim=-1)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Attention written out (claim ATT-1).

    Args:
        query: (..., T, d).
        key: (..., S, d).
        value: (..., S, d_v).
        mask: True where a query may look, broadcast to (..., T, S); None for everywhere.
        causal: Whether a query also may not look past its own position, the queries being the
            last T of the S positions.
        scale: Factor on q·k; None for 1/√d.
        softcap: Bound on the scores; None for none.

    Returns:
        One weighted mean of the values for each query, (..., T, d_v).
    """
    scores = attention_scores(query, key, scale=scale, softcap=softcap)  # (..., T, S)
    weights = attention_weights(scores, _visible(query, key, mask, causal=causal))
    return weights @ value  # (..., T, S) @ (..., S, d_v) -> (..., T, d_v)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The same through torch's fused operator, which never writes the (T, S) scores to memory.

    Arguments and result are those of `scaled_dot_product_attention`, without its soft-cap.
    """
    triangle = causal and mask is None and query.shape[-2] == key.shape[-2]
    # torch's is_causal lines its triangle up with the first key, so it serves only where T = S
    visible = None if triangle else _visible(query, key, mask, causal=causal)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, is_causal=triangle, scale=scale
    )


def _visible(query: Tensor, key: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor | None:
    if not causal:
        return mask
    triangle = causal_mask(query.shape[-2], key.shape[-2], device=query.device)
    return triangle if mask is None else triangle & mask


class MultiHeadAttention(nn.Module):
    """Many small attentions side by side, each in its own d_head channels, then mixed by W_O.

    One linear layer makes queries, keys and values at once. With as many key heads as query heads
    and head_width = width / heads it holds 4·width² weights, whatever the number of heads (MHA-1).

    Args:
        width: Width of the residual stream, C.
        heads: Query heads, H.
        kv_heads: Key and value heads; None for H. Each serves heads/kv_heads neighbouring queries.
        head_width: d_head; None for width / heads.
        bias: Whether both linear layers carry a bias.
        qk_norm: Whether queries and keys pass an RMSNorm over their head first (claim STAB-2).
        norm_eps: Epsilon of that norm.
        softcap: Bound on the scores; None for none.
        fused: Whether to run torch's fused operator.

    Raises:
        ValueError: If the width does not divide into the heads, or the heads not into groups.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        bias: bool = False,
        qk_norm: bool = False,
        norm_eps: float = 1e-5,
        softcap: float | None = None,
        fused: bool = False,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.head_width, self.kv_heads = head_shape(width, heads, kv_heads, head_width)
        self.softcap, self.fused = softcap, fused
        joined = (heads + 2 * self.kv_heads) * self.head_width
        self.qkv = nn.Linear(width, joined, bias=bias)
        self.output = nn.Linear(heads * self.head_width, width, bias=bias)
        self.query_norm = RMSNorm(self.head_width, norm_eps) if qk_norm else nn.Identity()
        self.key_norm = RMSNorm(self.head_width, norm_eps) if qk_norm else nn.Identity()

    def forward(
        self,
        x: Tensor,
        *,
        rotation: Rotation | None = None,
        mask: Tensor | None = None,
        causal: bool = True,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attend.

        Args:
            x: (B, T, C).
            rotation: Turns queries and keys by their positions, never values (claim ROPE-4).
            mask: True where a query may look, broadcast to (B, H, T, S); None for everywhere.
            causal: Whether later positions are hidden.
            cache: Keys and values of earlier calls, which this call extends: S = past + T.

        Returns:
            (B, T, C).
        """
        query, key, value = self.project(x)
        if rotation is not None:
            query, key = apply_rotation(query, rotation), apply_rotation(key, rotation)
        if cache is not None:
            key, value = cache.extend(key, value)  # (B, H_kv, T, d) -> (B, H_kv, S, d)
        joined = self.attend(query, key, value, mask=mask, causal=causal)
        mixed: Tensor = self.output(joined)  # (B, T, H·d) -> (B, T, C)
        return mixed

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, d), keys and values (B, H_kv, T, d) of x (B, T, C), not yet rotated."""
        B, T, _ = x.shape
        heads = self.heads + 2 * self.kv_heads
        joined = self.qkv(x).view(B, T, heads, self.head_width)  # (B, T, C) -> (B, T, heads, d)
        joined = joined.transpose(1, 2)  # -> (B, heads, T, d): heads become a batch axis
        query, key, value = joined.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return self.query_norm(query), self.key_norm(key), value

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None, causal: bool
    ) -> Tensor:
        """All heads' means of values, joined but not yet mixed by W_O: (B, T, H·d)."""
        if self.kv_heads < self.heads:
            group = self.heads // self.kv_heads
            key = key.repeat_interleave(group, dim=1)  # (B, H_kv, S, d) -> (B, H, S, d)
            value = value.repeat_interleave(group, dim=1)
        if self.fused:
            mean = fused_attention(query, key, value, mask=mask, causal=causal)
        else:
            mean = scaled_dot_product_attention(
                query, key, value, mask=mask, causal=causal, softcap=self.softcap
            )
        # transpose leaves the memory out of order, so flatten copies; a view would raise (GPT-4)
        return mean.transpose(1, 2).flatten(2)  # (B, H, T, d) -> (B, T, H·d)
