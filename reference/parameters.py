"""How many parameters a shape has, without building it (claims GPT-2, HYP-2).

For the article's kind of block: 4·d² for attention, 3·d·d_ff for SwiGLU, 2·d for two norms.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from theodolite.reference.config import GPTConfig


@dataclass(frozen=True)
class ParameterCount:
    """The parts of the sum; `attention`, `feed_forward` and `norms` are those of one block."""

    embedding: int
    positions: int
    attention: int
    feed_forward: int
    norms: int
    layers: int
    final_norm: int
    head: int

    @property
    def block(self) -> int:
        """One block."""
        return self.attention + self.feed_forward + self.norms

    @property
    def total(self) -> int:
        """The whole model, a tied head counted once."""
        blocks = self.layers * self.block
        return self.embedding + self.positions + blocks + self.final_norm + self.head


def parameter_count(config: GPTConfig) -> ParameterCount:
    """The closed formula, for every `GPTConfig`."""
    d, V = config.width, config.vocabulary
    heads, kv_heads, head_width, hidden = config.shape
    joined = (heads + 2 * kv_heads) * head_width
    attention = d * joined + heads * head_width * d
    matrices = 3 if config.feed_forward == "swiglu" else 2
    feed_forward = matrices * d * hidden
    if config.bias:
        attention += joined + d
        feed_forward += (matrices - 1) * hidden + d
    if config.qk_norm:
        attention += 2 * head_width
    norm = d if config.norm == "rmsnorm" else 2 * d
    return ParameterCount(
        embedding=V * d,
        positions=config.context * d if config.positions == "learned" and config.context else 0,
        attention=attention,
        feed_forward=feed_forward,
        norms=2 * norm,
        layers=config.layers,
        final_norm=norm if config.placement == "pre" else 0,
        head=0 if config.tied else V * d,
    )


def count_parameters(module: nn.Module) -> int:
    """Count a real module's parameters, each shared one once."""
    return sum(parameter.numel() for parameter in module.parameters())
