"""The known-good GPT, one idea a file, in the order in which the article builds it.

Letting tokens talk
    `averaging`: the mean of the past as a loop, a matrix product and a softmax; `bigram`: what a
    model does that cannot look back; `attention`: softmax(QKᵀ/√d + M)V, written out and fused.
Heads, and attention that does not know order
    `attention`: `MultiHeadAttention`; `positions`: sinusoidal and learned vectors.
Rotary positions
    `rotary`: frequencies, both pairings, interpolation, and a table computed beforehand.
Feed-forward, residuals, norms
    `feed_forward`: ReLU, GELU, SwiGLU and its rounded width; `norm`: LayerNorm and RMSNorm;
    `block`: pre-norm and post-norm.
A GPT that runs
    `model`: the GPT; `loss`: next-token cross-entropy; `generation` and `cache`: writing on;
    `parameters`: the closed formula; `data`: text to ids and batches; `training`: the loop, with
    `checkpoint` to stop and go on, and `products` to multiply faster.
Choosing the shape, keeping it stable
    `config`: every choice, and published models; `stability`: z-loss and soft-capping.
"""

from theodolite.reference.attention import (
    MultiHeadAttention,
    attention_scores,
    attention_weights,
    causal_mask,
    fused_attention,
    scaled_dot_product_attention,
)
from theodolite.reference.averaging import (
    averaging_matrix,
    masked_softmax_matrix,
    running_mean_by_loop,
    running_mean_by_product,
    running_mean_by_softmax,
)
from theodolite.reference.bigram import Bigram
from theodolite.reference.block import Block, build_attention, build_feed_forward, build_norm
from theodolite.reference.cache import KeyValueCache, LayerCache
from theodolite.reference.config import PUBLISHED, GPTConfig, Shape, article, gpt2_style, head_shape
from theodolite.reference.feed_forward import FeedForward, SwiGLU, gated_width, round_up
from theodolite.reference.generation import distribution, generate, sample
from theodolite.reference.loss import next_token_loss, token_loss
from theodolite.reference.model import GPT
from theodolite.reference.norm import LayerNorm, RMSNorm
from theodolite.reference.parameters import ParameterCount, count_parameters, parameter_count
from theodolite.reference.positions import LearnedPositions, SinusoidalPositions, sinusoidal
from theodolite.reference.rotary import (
    Rotary,
    Rotation,
    apply_rotation,
    rotary_frequencies,
    rotate,
    rotation_at,
)
from theodolite.reference.stability import soft_cap, z_loss

__all__ = [
    "GPT",
    "PUBLISHED",
    "Bigram",
    "Block",
    "FeedForward",
    "GPTConfig",
    "KeyValueCache",
    "LayerCache",
    "LayerNorm",
    "LearnedPositions",
    "MultiHeadAttention",
    "ParameterCount",
    "RMSNorm",
    "Rotary",
    "Rotation",
    "Shape",
    "SinusoidalPositions",
    "SwiGLU",
    "apply_rotation",
    "article",
    "attention_scores",
    "attention_weights",
    "averaging_matrix",
    "build_attention",
    "build_feed_forward",
    "build_norm",
    "causal_mask",
    "count_parameters",
    "distribution",
    "fused_attention",
    "gated_width",
    "generate",
    "gpt2_style",
    "head_shape",
    "masked_softmax_matrix",
    "next_token_loss",
    "parameter_count",
    "rotary_frequencies",
    "rotate",
    "rotation_at",
    "round_up",
    "running_mean_by_loop",
    "running_mean_by_product",
    "running_mean_by_softmax",
    "sample",
    "scaled_dot_product_attention",
    "sinusoidal",
    "soft_cap",
    "token_loss",
    "z_loss",
]
