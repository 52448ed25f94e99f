"""A decoder for serving in one file: rotary in pairs, grouped keys, RMSNorm, cache, experts.

Everything is written out, the softmax too. Sizes are awkward on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KeysValues = tuple[Tensor, Tensor]


@dataclass
class Args:
    """Sizes; `window` 0 looks back all the way, `n_experts` 0 is one plain feed-forward."""

    vocab: int = 67
    context: int = 44
    n_layers: int = 3
    dim: int = 48
    n_heads: int = 6
    n_kv_heads: int = 2
    hidden: int = 104
    rope_theta: float = 10000.0
    window: int = 0
    n_experts: int = 0
    top_k_experts: int = 2


def inverse_frequencies(dim: int, theta: float) -> Tensor:
    """Radians a position of each pair of channels, (dim/2,)."""
    return theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def cos_sin(positions: Tensor, freqs: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each angle, (..., T, dim/2)."""
    angles = positions[..., None].double() * freqs
    return angles.cos(), angles.sin()


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn channels (2i, 2i + 1) of x (B, H, T, d)."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def rotate(
    q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys are turned, values are not."""
    return turn(q, cos, sin), turn(k, cos, sin), v


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """(B, T, H·d) -> (B, H, T, d)."""
    B, T, C = x.shape
    return x.view(B, T, C // head_dim, head_dim).movedim(2, 1)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, T, d) -> (B, T, H·d)."""
    return x.movedim(1, 2).flatten(2)


def repeat_kv(x: Tensor, n_heads: int) -> Tensor:
    """(B, H_kv, S, d) -> (B, H, S, d): each head for its group of neighbours."""
    B, G, S, d = x.shape
    return x[:, :, None].expand(B, G, n_heads // G, S, d).reshape(B, n_heads, S, d)


def causal(T: int, S: int) -> Tensor:
    """Bool (T, S): the queries are the last T of S positions."""
    return torch.arange(S)[None] <= torch.arange(S - T, S)[:, None]


def within(T: int, S: int, window: int) -> Tensor:
    """Bool (T, S): the last `window` positions, itself included."""
    return torch.arange(S - T, S)[:, None] - torch.arange(S)[None] < window


def visible_tokens(attention_mask: Tensor, T: int) -> Tensor:
    """Bool (B, 1, T, S): no padding, but each token sees itself."""
    S = attention_mask.size(1)
    eye = torch.arange(S - T, S)[:, None] == torch.arange(S)[None]
    return (attention_mask.bool()[:, None] | eye.to(attention_mask.device))[:, None]


def head_scale(q: Tensor) -> float:
    """d^-1/2 for q (B, H, T, d)."""
    return float(q.size(-1) ** -0.5)


def scores(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """(B, H, T, d), (B, H, S, d) -> (B, H, T, S)."""
    return torch.einsum("bhtd,bhsd->bhts", q, k) * scale


def weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the visible keys."""
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def mix(weights: Tensor, v: Tensor) -> Tensor:
    """(B, H, T, S), (B, H, S, d) -> (B, H, T, d)."""
    return torch.einsum("bhts,bhsd->bhtd", weights, v)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Attention of heads (B, H, T, d)."""
    return mix(weights(scores(q, k, scale), mask), v)


def extend(
    past_key: Tensor | None, past_value: Tensor | None, key: Tensor, value: Tensor
) -> KeysValues:
    """What was kept, then what is new."""
    if past_key is None or past_value is None:
        return key, value
    return torch.cat((past_key, key), 2), torch.cat((past_value, value), 2)


def positions_of(T: int, past: int, attention_mask: Tensor | None) -> Tensor:
    """Where the T new tokens stand: behind the past, or counted from a row's first token."""
    if attention_mask is None:
        return torch.arange(past, past + T)
    return (attention_mask.long().cumsum(-1) - 1).clamp_min(0)[:, -T:]


def rms_norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:  # noqa: ARG001
    """X / rms(x), times the gain."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """SiLU(gate) · up."""
    return F.silu(gate) * up


def route(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Router logits (N, E) -> weights and numbers of the k experts of each token, (N, k)."""
    top, chosen = logits.topk(k, dim=-1)
    return top.softmax(-1), chosen


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of logits (B, T, V); targets (B, T) stand where they are predicted."""
    counted = targets != -100
    nats = -logits.log_softmax(-1).gather(-1, targets.clamp_min(0)[..., None])[..., 0]
    return (nats * counted).sum() / counted.sum()


def cut(ids: Tensor, context: int) -> Tensor:
    """What the model still reads."""
    return ids[:, -context:]


def draw_from(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None) -> Tensor:
    """The distribution of the next token, (B, V)."""
    p = (logits / temperature).softmax(-1)
    ranked, order = p.sort(-1, descending=True)
    if top_k is not None:
        ranked = ranked * (torch.arange(ranked.size(-1), device=p.device) < top_k)
        ranked = ranked / ranked.sum(-1, keepdim=True)
    if top_p is not None:
        ranked = ranked * (ranked.cumsum(-1) - ranked < top_p)
    return torch.zeros_like(p).scatter(-1, order, ranked / ranked.sum(-1, keepdim=True))


class RMSNorm(nn.Module):
    """One gain a channel."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(..., C) -> (..., C)."""
        return rms_norm(x, self.gain, None, self.eps)


class Attention(nn.Module):
    """Grouped-query attention with a cache of keys and values."""

    def __init__(self, args: Args) -> None:
        super().__init__()
        self.n_heads, self.head_dim = args.n_heads, args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wkv = nn.Linear(args.dim, 2 * args.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, C) -> q (B, H, T, d), k and v (B, H_kv, T, d)."""
        k, v = self.wkv(x).chunk(2, -1)
        return (
            split_heads(self.wq(x), self.head_dim),
            split_heads(k, self.head_dim),
            split_heads(v, self.head_dim),
        )

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, past: KeysValues | None
    ) -> tuple[Tensor, KeysValues]:
        """(B, T, C) -> (B, T, C), and keys and values of all tokens so far."""
        q, k, v = rotate(*self.project(x), cos, sin)
        past_k, past_v = past or (None, None)
        present = extend(past_k, past_v, k, v)
        k, v = (repeat_kv(each, self.n_heads) for each in present)
        return self.wo(join_heads(attend(q, k, v, mask, head_scale(q)))), present


class FeedForward(nn.Module):
    """Gated."""

    def __init__(self, args: Args) -> None:
        super().__init__()
        self.w1 = nn.Linear(args.dim, args.hidden, bias=False)
        self.w2 = nn.Linear(args.hidden, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, args.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., C) -> (..., C)."""
        out: Tensor = self.w2(swiglu(self.w1(x), self.w3(x)))
        return out


class Experts(nn.Module):
    """Some feed-forwards, of which each token goes through a few."""

    def __init__(self, args: Args) -> None:
        super().__init__()
        self.router = nn.Linear(args.dim, args.n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(args) for _ in range(args.n_experts))
        self.top_k = args.top_k_experts

    def mixture(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Tokens (N, C), weights and experts (N, k) -> (N, C)."""
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, token, weights[token, place, None] * expert(x[token]))
        return out

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        tokens = x.flatten(0, 1)
        return self.mixture(tokens, *route(self.router(tokens), self.top_k)).view_as(x)


class Layer(nn.Module):
    """Pre-norm block."""

    def __init__(self, args: Args) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(args.dim), RMSNorm(args.dim)
        self.attention = Attention(args)
        self.ff = Experts(args) if args.n_experts else FeedForward(args)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, past: KeysValues | None
    ) -> tuple[Tensor, KeysValues]:
        """(B, T, C) -> (B, T, C), and this layer's keys and values."""
        a, present = self.attention(self.norm1(x), cos, sin, mask, past)
        h = x + a
        return h + self.ff(self.norm2(h)), present


class Decoder(nn.Module):
    """Returns a dictionary: logits, past, and the loss if there are labels."""

    def __init__(self, args: Args) -> None:
        super().__init__()
        self.args = args
        self.context = args.context
        self.tokens = nn.Embedding(args.vocab, args.dim)
        self.layers = nn.ModuleList(Layer(args) for _ in range(args.n_layers))
        self.norm = RMSNorm(args.dim)
        self.output = nn.Linear(args.dim, args.vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.trunc_normal_(parameter, std=0.05)

    def visible(self, T: int, S: int, attention_mask: Tensor | None) -> Tensor:
        """Bool, broadcast to (B, H, T, S)."""
        mask = causal(T, S)
        if self.args.window:
            mask = mask & within(T, S, self.args.window)
        return mask if attention_mask is None else visible_tokens(attention_mask, T) & mask

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        positions: Tensor | None = None,
        past: list[KeysValues] | None = None,
        labels: Tensor | None = None,
    ) -> dict[str, Any]:
        """Ids (B, T); labels (B, T) are ids too, and shifted here."""
        T = ids.size(1)
        seen = 0 if past is None else past[0][0].size(2)
        if positions is None:
            positions = positions_of(T, seen, attention_mask)
        freqs = inverse_frequencies(self.args.dim // self.args.n_heads, self.args.rope_theta)
        cos, sin = cos_sin(positions if positions.dim() == 1 else positions[:, None], freqs)
        mask = self.visible(T, seen + T, attention_mask)
        x = self.tokens(ids)
        present = []
        for number, layer in enumerate(self.layers):
            x, kept = layer(x, cos, sin, mask, None if past is None else past[number])
            present.append(kept)
        logits = self.output(self.norm(x))
        result = {"logits": logits, "past": present}
        if labels is not None:
            result["loss"] = next_token_loss(logits, F.pad(labels[:, 1:], (0, 1), value=-100))
        return result

    @torch.no_grad()
    def generate(
        self,
        ids: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        attention_mask: Tensor | None = None,
        eos_id: int | None = None,
    ) -> Tensor:
        """Continue ids (B, T); rows that drew `eos_id` go on with it."""
        done = torch.zeros_like(ids[:, :1], dtype=torch.bool)
        for _ in range(max_new_tokens):
            mask = None if attention_mask is None else cut(attention_mask, self.context)
            last = self(cut(ids, self.context), attention_mask=mask)["logits"][:, -1]
            if temperature == 0:
                new = last.argmax(-1, keepdim=True)
            else:
                new = torch.multinomial(draw_from(last, temperature, top_k, top_p), 1)
            if eos_id is not None:
                new = torch.where(done, eos_id, new)
                done = done | (new == eos_id)
            ids = torch.cat((ids, new), 1)
            if attention_mask is not None:
                attention_mask = torch.cat((attention_mask, torch.ones_like(new)), 1)
            if bool(done.all()):
                break
        return ids


def build() -> Decoder:
    """A small model with random weights."""
    return Decoder(Args())


def build_mixture() -> Decoder:
    """The same with experts, and a window."""
    return Decoder(Args(n_experts=5, window=6))
