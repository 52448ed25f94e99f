"""One layer: attention and feed-forward, each added to the residual stream (claims RES).

Pre-norm, x + f(norm(x)), leaves the stream a plain chain of additions; post-norm, norm(x + f(x)),
normalises the stream itself after each. Xiong et al. 2020 compare the two.
"""

from __future__ import annotations

from torch import Tensor, nn

from theodolite.reference.attention import MultiHeadAttention
from theodolite.reference.cache import LayerCache
from theodolite.reference.config import GPTConfig
from theodolite.reference.feed_forward import FeedForward, SwiGLU
from theodolite.reference.norm import LayerNorm, RMSNorm
from theodolite.reference.rotary import Rotation


class Block(nn.Module):
    """Attention, then feed-forward, with the norms where `config.placement` puts them."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.pre_norm = config.placement == "pre"
        self.attention_norm = build_norm(config)
        self.attention = build_attention(config)
        self.feed_forward_norm = build_norm(config)
        self.feed_forward = build_feed_forward(config)

    def forward(
        self,
        x: Tensor,
        *,
        rotation: Rotation | None = None,
        mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """(B, T, C) -> (B, T, C). The keywords are those of `MultiHeadAttention`."""
        if self.pre_norm:
            branch = self.attention_norm(x)
            x = x + self.attention(branch, rotation=rotation, mask=mask, cache=cache)
            x = x + self.feed_forward(self.feed_forward_norm(x))
        else:
            branch = self.attention(x, rotation=rotation, mask=mask, cache=cache)
            x = self.attention_norm(x + branch)
            x = self.feed_forward_norm(x + self.feed_forward(x))
        return x


def build_norm(config: GPTConfig) -> RMSNorm | LayerNorm:
    """A norm over the residual stream, of the kind that `config` names."""
    kind = RMSNorm if config.norm == "rmsnorm" else LayerNorm
    return kind(config.width, config.norm_eps)


def build_attention(config: GPTConfig) -> MultiHeadAttention:
    """The attention that `config` describes."""
    return MultiHeadAttention(
        config.width,
        config.heads,
        kv_heads=config.kv_heads,
        head_width=config.head_width,
        bias=config.bias,
        qk_norm=config.qk_norm,
        norm_eps=config.norm_eps,
        softcap=config.attention_softcap,
        fused=config.fused,
    )


def build_feed_forward(config: GPTConfig) -> SwiGLU | FeedForward:
    """The feed-forward network that `config` describes."""
    hidden = config.shape.feed_forward_width
    if config.feed_forward == "swiglu":
        return SwiGLU(config.width, hidden, bias=config.bias)
    return FeedForward(config.width, hidden, activation=config.feed_forward, bias=config.bias)
