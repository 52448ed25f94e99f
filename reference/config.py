"""The shape of a GPT, and the shapes that others published.

How people choose these numbers is the article's last chapter (claims HYP-1 to HYP-3).
Every optional width is derived where it is left out, so that ``dataclasses.replace`` derives anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from theodolite.reference.feed_forward import gated_width
from theodolite.reference.rotary import Pairing

FeedForwardKind = Literal["swiglu", "relu", "gelu"]
NormKind = Literal["rmsnorm", "layernorm"]
Placement = Literal["pre", "post"]
PositionKind = Literal["rotary", "learned", "sinusoidal", "none"]


class Shape(NamedTuple):
    """What a `GPTConfig` comes to once every derived number is filled in."""

    heads: int
    kv_heads: int
    head_width: int
    feed_forward_width: int


@dataclass(frozen=True)
class GPTConfig:
    """Every choice that makes a GPT. The defaults are the article's (810,624 parameters).

    Attributes:
        vocabulary: Number of token ids, V.
        width: Width of the residual stream, d_model or C.
        layers: Number of blocks.
        heads: Query heads, H.
        kv_heads: Key and value heads; None for as many as `heads`. Fewer is grouped-query
            attention: query heads ``g·i … g·i + g - 1`` share key head i, with g = heads/kv_heads.
        head_width: Width of a head, d_head; None for width / heads.
        feed_forward_width: Hidden width, d_ff; None for 8/3·width rounded up to
            `feed_forward_multiple` (swiglu), or 4·width (relu, gelu).
        feed_forward_multiple: What the derived SwiGLU width is rounded up to.
        feed_forward: The kind of feed-forward network.
        norm: The kind of norm.
        norm_eps: Added to the mean square (or variance) inside the root.
        placement: "pre": x + f(norm(x)), and a norm before the head. "post": norm(x + f(x)).
        positions: How order enters: rotated queries and keys, a learned or a sinusoidal vector
            added to the embedding, or not at all.
        rotary_base: θ of the rotary frequencies θ^(-2i/d_head).
        rotary_pairing: Which channels turn together: (2i, 2i+1), or (i, i + d_head/2).
        rotary_interpolation: Positions are divided by this before they turn anything.
        context: Longest sequence, in tokens; None for no limit. Learned positions need one.
        bias: Whether the linear layers inside the blocks carry a bias (the head never does).
        tied: Whether the head shares the embedding's weight.
        qk_norm: Whether each head's queries and keys pass an RMSNorm before they are rotated.
        attention_softcap: Bound on the attention scores by cap·tanh(s/cap); None for none.
        logit_softcap: The same for the logits.
        initial_std: Standard deviation of the initial weights, those that write into the residual
            stream divided by √(2·layers) as in GPT-2. None for torch's own initialisation, or,
            for tied weights, 0.02: torch's N(0, 1) embedding used as a head would start the loss
            tens of nats above ln V.
        fused: Whether attention runs through torch's fused operator or is written out.

    Raises:
        ValueError: If no model can have this shape; the message says what to change.
    """

    vocabulary: int = 74
    width: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int | None = None
    head_width: int | None = None
    feed_forward_width: int | None = None
    feed_forward_multiple: int = 8
    feed_forward: FeedForwardKind = "swiglu"
    norm: NormKind = "rmsnorm"
    norm_eps: float = 1e-5
    placement: Placement = "pre"
    positions: PositionKind = "rotary"
    rotary_base: float = 10000.0
    rotary_pairing: Pairing = "interleaved"
    rotary_interpolation: float = 1.0
    context: int | None = None
    bias: bool = False
    tied: bool = False
    qk_norm: bool = False
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    initial_std: float | None = None
    fused: bool = False

    def __post_init__(self) -> None:
        _require_choices(self)
        _require_positive(self)
        head_shape(self.width, self.heads, self.kv_heads, self.head_width)
        if self.positions == "rotary" and self.shape.head_width % 2:
            raise ValueError(
                f"head_width is {self.shape.head_width}, which is odd, and rotary positions turn "
                "channels in pairs: choose an even head_width, or positions other than rotary."
            )
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError(
                f"width is {self.width}, which is odd, and sinusoidal positions come as pairs of "
                "sine and cosine: choose an even width."
            )
        if self.positions == "learned" and self.context is None:
            raise ValueError(
                "Learned positions are a table with an end: set context to its length."
            )
        if self.fused and self.attention_softcap is not None:
            raise ValueError(
                "torch's fused attention cannot soft-cap its scores: "
                "set fused=False, or attention_softcap=None."
            )

    @property
    def shape(self) -> Shape:
        """Heads and widths with every derived number filled in."""
        head_width, kv_heads = head_shape(self.width, self.heads, self.kv_heads, self.head_width)
        derived = (
            gated_width(self.width, self.feed_forward_multiple)
            if self.feed_forward == "swiglu"
            else 4 * self.width
        )
        return Shape(self.heads, kv_heads, head_width, self.feed_forward_width or derived)


def head_shape(
    width: int, heads: int, kv_heads: int | None = None, head_width: int | None = None
) -> tuple[int, int]:
    """Return (head_width, kv_heads), derived where they are None.

    Raises:
        ValueError: If the width does not divide into the heads, or the heads not into groups
            (claim MHA-6).
    """
    if head_width is None:
        if width % heads:
            raise ValueError(
                f"width {width} does not divide into {heads} heads: "
                f"choose a width that is a multiple of {heads}, or give head_width."
            )
        head_width = width // heads
    if kv_heads is None:
        kv_heads = heads
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(
            f"{heads} query heads do not divide among {kv_heads} key and value heads: "
            f"choose kv_heads among the divisors of {heads}."
        )
    return head_width, kv_heads


def article() -> GPTConfig:
    """The article's GPT: 74 characters, width 128, 4 layers, 4 heads, d_ff 344."""
    return GPTConfig()


def gpt2_style(
    *,
    vocabulary: int = 97,
    width: int = 48,
    layers: int = 3,
    heads: int = 4,
    context: int = 64,
    fused: bool = False,
) -> GPTConfig:
    """GPT-2's choices at any size: learned positions, LayerNorm, biases, GELU, a tied head."""
    return GPTConfig(
        vocabulary=vocabulary,
        width=width,
        layers=layers,
        heads=heads,
        feed_forward="gelu",
        norm="layernorm",
        positions="learned",
        context=context,
        bias=True,
        tied=True,
        initial_std=0.02,
        fused=fused,
    )


_CHOICES = {
    "feed_forward": get_args(FeedForwardKind),
    "norm": get_args(NormKind),
    "placement": get_args(Placement),
    "positions": get_args(PositionKind),
    "rotary_pairing": get_args(Pairing),
}
_COUNTS = (
    "vocabulary",
    "width",
    "layers",
    "heads",
    "kv_heads",
    "head_width",
    "feed_forward_width",
    "feed_forward_multiple",
    "context",
)
_SIZES = (
    "norm_eps",
    "rotary_base",
    "rotary_interpolation",
    "attention_softcap",
    "logit_softcap",
    "initial_std",
)


def _require_choices(config: GPTConfig) -> None:
    for name, choices in _CHOICES.items():
        if getattr(config, name) not in choices:
            listed = ", ".join(map(repr, choices))
            raise ValueError(f"{name} is {getattr(config, name)!r}: choose one of {listed}.")


def _require_positive(config: GPTConfig) -> None:
    for name in _COUNTS:
        value = getattr(config, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} is {value!r}: give a whole number of at least 1.")
    for name in _SIZES:
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} is {value!r}: give a number above 0.")


PUBLISHED: dict[str, GPTConfig] = {
    "gpt2": gpt2_style(vocabulary=50257, width=768, layers=12, heads=12, context=1024),
    "gpt3-175b": gpt2_style(vocabulary=50257, width=12288, layers=96, heads=96, context=2048),
    "llama2-7b": GPTConfig(
        vocabulary=32000,
        width=4096,
        layers=32,
        heads=32,
        feed_forward_multiple=256,
        rotary_pairing="half",
        context=4096,
    ),
}
"""Published models: GPT-2 (Radford et al. 2019; 124,439,808 parameters), GPT-3 175B (Brown et al.
2020, without its sparse attention, which has no weights; 174,604,259,328) and LLaMA-2 7B (Touvron
et al. 2023, with the channel order of its Hugging Face weights; 6,738,415,616)."""
