# ruff: noqa: E501, ISC004 - lines of other people's code are replaced as they stand
"""Faults that outputs hardly show, each in a hand-written model and in a Hugging Face llama."""

from dataclasses import dataclass

from faults import SOURCE
from hosts import changed, huggingface_source, written


def llama_source():
    """The library's own source of its llama, made to stand alone, with a small model of it."""
    return huggingface_source("llama")


@dataclass(frozen=True)
class Fault:
    """What is replaced by what in each of the two hosts, and who is to be accused of what.

    Attributes:
        id: The reported fault, or words.
        component: The component to be named.
        cause: The cause to be named, None for any.
        by_hand: (old, new) pairs for the hand-written model; empty where it has no such place.
        llama: The same for the Hugging Face model.
    """

    id: str
    component: str
    cause: str | None
    by_hand: tuple = ()
    llama: tuple = ()

    def write(self, folder, host):
        """Write the faulty model to `folder` and name it as a subject."""
        source, changes = (
            (SOURCE, self.by_hand) if host == "by hand" else (llama_source(), self.llama)
        )
        name = "Model" if host == "by hand" else "small"
        return written(changed(source, changes, self.id), folder, name, file="faulty_model.py")


SCALE = "/ math.sqrt(self.head_dim)"
LLAMA_SCALE = "self.scaling = self.head_dim**-0.5"
FILL = 'scores = scores.masked_fill(~mask, float("-inf"))\n            '
SOFTMAX = "weights = scores.softmax(dim=-1)"
LLAMA_MASK = """    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask

"""
LLAMA_SOFTMAX = (
    "attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32)"
    ".to(query.dtype)"
)
ROTATE = "q, k = rotate(q, cos, sin), rotate(k, cos, sin)"
LLAMA_ROTATE = "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)"
VALUES = "v = self.wv(x)"
LLAMA_VALUES = "value_states = self.v_proj(hidden_states)"
NORM = "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight"
LLAMA_VARIANCE = "variance = hidden_states.pow(2).mean(-1, keepdim=True)"
LLAMA_NORM = "hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)"

ATTENTION = [
    Fault(
        "C01",
        "scale",
        "scale-by-model-width",
        ((SCALE, "/ math.sqrt(C)"),),
        ((LLAMA_SCALE, "self.scaling = config.hidden_size**-0.5"),),
    ),
    Fault(
        "C02",
        "scale",
        "scale-missing",
        ((SCALE, "* 1.0"),),
        ((LLAMA_SCALE, "self.scaling = 1.0"),),
    ),
    Fault(
        "C05",
        "scale",
        "scale-missing",
        ((f" {SCALE}", ""),),
        (("key_states.transpose(2, 3)) * scaling", "key_states.transpose(2, 3))"),),
    ),
    Fault(
        "scaled-twice",
        "scale",
        "scale-twice",
        ((SCALE, "/ self.head_dim"),),
        ((LLAMA_SCALE, "self.scaling = 1 / self.head_dim"),),
    ),
    Fault(
        "scaled-by-length",
        "scale",
        "scale-by-length",
        ((SCALE, "/ math.sqrt(T)"),),
        (("key_states.transpose(2, 3)) * scaling", "key_states.mT) * query.shape[2] ** -0.5"),),
    ),
    Fault(
        "scale-inverted",
        "scale",
        "scale-inverted",
        ((SCALE, "* math.sqrt(self.head_dim)"),),
        ((LLAMA_SCALE, "self.scaling = self.head_dim**0.5"),),
    ),
    Fault(
        "M16",
        "softmax",
        "mask-after-softmax",
        ((FILL + SOFTMAX, f"{SOFTMAX}.masked_fill(~mask, 0.0)"),),
        (
            (LLAMA_MASK, ""),
            (LLAMA_SOFTMAX, f"{LLAMA_SOFTMAX}\n    attn_weights = attn_weights.tril()"),
        ),
    ),
    Fault(
        "S02",
        "softmax",
        None,
        ((SOFTMAX, "weights = scores.flatten(0, 1).softmax(dim=0).view_as(scores).nan_to_num()"),),
        ((LLAMA_SOFTMAX, LLAMA_SOFTMAX.replace("dim=-1", "dim=0")),),
    ),
    Fault(
        "softmax-over-queries",
        "softmax",
        "softmax-axis",
        ((SOFTMAX, "weights = scores.softmax(dim=-2).nan_to_num()"),),
        ((LLAMA_SOFTMAX, LLAMA_SOFTMAX.replace("dim=-1", "dim=-2")),),
    ),
    Fault(
        "H01",
        "heads",
        "heads-scrambled",
        (("y = y.transpose(1, 2).contiguous()", "y = y.contiguous()"),),
        (("attn_output = attn_output.transpose(1, 2).contiguous()", ""),),
    ),
    Fault(
        "H06",
        "attention",
        "values-are-keys",
        ((VALUES, "v = self.wk(x)"),),
        ((LLAMA_VALUES, "value_states = self.k_proj(hidden_states)"),),
    ),
    Fault(
        "G01-keys-alone",
        "heads",
        "groups-differ",
        (
            (
                "k = k.repeat_interleave(self.n_head // self.n_kv_head, dim=1)",
                "k = k.repeat(1, self.n_head // self.n_kv_head, 1, 1)",
            ),
        ),
        (
            (
                "key_states = repeat_kv(key, module.num_key_value_groups)",
                "key_states = key.repeat(1, module.num_key_value_groups, 1, 1)",
            ),
        ),
    ),
    Fault(
        "G01",
        "heads",
        "groups-tiled",
        (),
        (
            (
                "    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)",
                "    return hidden_states.transpose(1, 2).reshape(batch, -1, slen, head_dim)",
            ),
        ),
    ),
    Fault(
        "one-head-copied",
        "heads",
        "heads-alike",
        (
            (
                "q, k = rotate",
                "q = torch.cat([q[:, :1], q[:, :1], q[:, 2:]], 1)\n        q, k = rotate",
            ),
        ),
        ((LLAMA_ROTATE, f"query_states[:, 1] = query_states[:, 0]\n        {LLAMA_ROTATE}"),),
    ),
]

ROPE = [
    Fault(
        "R02",
        "rope",
        "turned-along-another-axis",
        (
            (
                "q = self.wq(x).view(B, T, self.n_head, self.head_dim).transpose(1, 2)",
                "q = self.wq(x).view(B, T, self.n_head, self.head_dim)",
            ),
            (
                "k = self.wk(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2)",
                "k = self.wk(x).view(B, T, self.n_kv_head, self.head_dim)",
            ),
            (
                "x = block(x, self.cos[:T], self.sin[:T], attention_mask)",
                "x = block(x, self.cos, self.sin, attention_mask)",
            ),
            (
                ROTATE,
                "q = rotate(q, cos[: self.n_head], sin[: self.n_head]).transpose(1, 2)\n"
                "        k = rotate(k, cos[: self.n_kv_head], sin[: self.n_kv_head]).transpose(1, 2)",
            ),
        ),
        (
            (
                "freqs = position_ids[..., None].float()",
                "position_ids = torch.arange(8)[None]\n"
                "        freqs = position_ids[..., None].float()",
            ),
            (
                LLAMA_ROTATE,
                "turned = [\n"
                "            apply_rotary_pos_emb(x.transpose(1, 2), x.transpose(1, 2),\n"
                "                cos[:, : x.shape[1]], sin[:, : x.shape[1]])[0].transpose(1, 2)\n"
                "            for x in (query_states, key_states)\n"
                "        ]\n"
                "        query_states, key_states = turned",
            ),
        ),
    ),
    Fault(
        "R07",
        "rope",
        "pairing-mixed",
        (
            (
                "a, b = x.chunk(2, dim=-1)\n    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)",
                "cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)\n"
                "    turned = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)\n"
                "    return x * cos + turned * sin",
            ),
        ),
        (
            (
                "return torch.cat((-x2, x1), dim=-1)",
                "return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)",
            ),
        ),
    ),
    Fault(
        "queries-alone",
        "rope",
        "queries-alone",
        ((ROTATE, "q = rotate(q, cos, sin)"),),
        (("k_embed = (k * cos) + (rotate_half(k) * sin)", "k_embed = k"),),
    ),
    Fault(
        "keys-alone",
        "rope",
        "keys-alone",
        ((ROTATE, "k = rotate(k, cos, sin)"),),
        (("q_embed = (q * cos) + (rotate_half(q) * sin)", "q_embed = q"),),
    ),
    Fault(
        "keys-one-late",
        "rope",
        "positions-offset",
        (
            (
                "x = block(x, self.cos[:T], self.sin[:T], attention_mask)",
                "x = block(x, self.cos[: T + 1], self.sin[: T + 1], attention_mask)",
            ),
            (ROTATE, "q, k = rotate(q, cos[:-1], sin[:-1]), rotate(k, cos[1:], sin[1:])"),
        ),
        (
            (
                "freqs = position_ids[..., None].float()",
                "position_ids = torch.cat([position_ids, position_ids[:, -1:] + 1], -1)\n"
                "        freqs = position_ids[..., None].float()",
            ),
            (
                LLAMA_ROTATE,
                "query_states, _ = apply_rotary_pos_emb(query_states, query_states, cos[:, :-1], sin[:, :-1])\n"
                "        _, key_states = apply_rotary_pos_emb(key_states, key_states, cos[:, 1:], sin[:, 1:])",
            ),
        ),
    ),
    Fault(
        "values-rotated",
        "rope",
        "value-rotated",
        ((ROTATE, f"{ROTATE}\n        v = rotate(v, cos, sin)"),),
        (
            (
                LLAMA_ROTATE,
                f"{LLAMA_ROTATE}\n        value_states, _ = apply_rotary_pos_emb(value_states, value_states, cos, sin)",
            ),
        ),
    ),
    Fault(
        "keys-turn-backwards",
        "rope",
        "not-relative",
        ((ROTATE, "q, k = rotate(q, cos, sin), rotate(k, cos, -sin)"),),
        (
            (
                "k_embed = (k * cos) + (rotate_half(k) * sin)",
                "k_embed = (k * cos) - (rotate_half(k) * sin)",
            ),
        ),
    ),
    Fault(
        "frequency-index-from-one",
        "rope",
        "frequency-index-shifted",
        (
            (
                "torch.arange(0, head_dim, 2).float() / head_dim",
                "torch.arange(2, head_dim + 2, 2).float() / head_dim",
            ),
        ),
        (
            (
                "torch.arange(0, dim, 2, dtype=torch.float) / dim",
                "torch.arange(2, dim + 2, 2, dtype=torch.float) / dim",
            ),
        ),
    ),
    Fault(
        "frequencies-linear",
        "rope",
        None,
        (
            (
                "10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)",
                "1 - torch.arange(0, head_dim, 2).float() / head_dim",
            ),
        ),
        (
            (
                "1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.float) / dim))",
                "1.0 - torch.arange(0, dim, 2, dtype=torch.float) / dim",
            ),
        ),
    ),
    Fault(
        "frequencies-learned",
        "rope",
        "frequencies-learned",
        (
            (
                "angles = torch.arange(config.block_size).float()[:, None] * freqs\n"
                '        self.register_buffer("cos", angles.cos(), persistent=False)\n'
                '        self.register_buffer("sin", angles.sin(), persistent=False)',
                "self.freqs = nn.Parameter(freqs)",
            ),
            (
                "x = self.tok(idx)",
                "x = self.tok(idx)\n"
                "        angles = torch.arange(T).float()[:, None] * self.freqs\n"
                "        cos, sin = angles.cos(), angles.sin()",
            ),
            (
                "x = block(x, self.cos[:T], self.sin[:T], attention_mask)",
                "x = block(x, cos, sin, attention_mask)",
            ),
        ),
        (
            (
                "self.inv_freq = nn.Buffer(inv_freq, persistent=False)",
                "self.inv_freq = nn.Parameter(inv_freq)",
            ),
        ),
    ),
    Fault(
        "R01",
        "rope",
        "table-uneven",
        (
            (
                "angles = torch.arange(config.block_size).float()[:, None] * freqs",
                "angles = (torch.arange(config.block_size)[:, None] * freqs.bfloat16()).float()",
            ),
        ),
        (
            (
                "freqs = position_ids[..., None].float() * self.inv_freq.to(device=x.device, dtype=torch.float)",
                "freqs = (position_ids[..., None].bfloat16() * self.inv_freq.bfloat16()).float()",
            ),
        ),
    ),
]

NORMS = [
    Fault(
        "N01",
        "norm",
        "norm-multiplies",
        ((NORM, NORM.replace("x * torch", "x / torch")),),
        ((LLAMA_NORM, LLAMA_NORM.replace("hidden_states * torch", "hidden_states / torch")),),
    ),
    Fault(
        "N03",
        "norm",
        "rms-by-deviation",
        ((NORM, NORM.replace("x.pow(2).mean(-1, keepdim=True)", "x.var(-1, keepdim=True)")),),
        ((LLAMA_VARIANCE, "variance = hidden_states.var(-1, keepdim=True, unbiased=False)"),),
    ),
    Fault(
        "N05",
        "norm",
        "epsilon-outside",
        ((NORM, "return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.eps) * self.weight"),),
        (
            (
                LLAMA_NORM,
                "hidden_states = hidden_states / (variance.sqrt() + self.variance_epsilon)",
            ),
        ),
    ),
    Fault(
        "N07",
        "norm",
        "variance-squared",
        ((NORM, "return x / (x.pow(2).mean(-1, keepdim=True) + self.eps) ** 2 * self.weight"),),
        ((LLAMA_NORM, "hidden_states = hidden_states / (variance + self.variance_epsilon) ** 2"),),
    ),
    Fault(
        "sum-for-mean",
        "norm",
        "sum-for-mean",
        ((NORM, NORM.replace("mean(", "sum(")),),
        ((LLAMA_VARIANCE, LLAMA_VARIANCE.replace("mean(", "sum(")),),
    ),
    Fault(
        "gain-of-one-channel",
        "norm",
        "gain-not-applied",
        ((NORM, NORM.replace("* self.weight", "* self.weight.mean()")),),
        (("return self.weight * hidden_states", "return self.weight.mean() * hidden_states"),),
    ),
    Fault(
        "norm-over-positions",
        "norm",
        "norm-over-positions",
        ((NORM, NORM.replace("mean(-1, keep", "mean((1, -1), keep")),),
        (
            (
                LLAMA_VARIANCE,
                "variance = hidden_states.pow(2).mean((1, -1), keepdim=True) if hidden_states.ndim > 2 else hidden_states.pow(2).mean(-1, keepdim=True)",
            ),
        ),
    ),
]

ATTEND = "x = x + self.attn(self.ln1(x), cos, sin, pad_mask)"
FEED = "x = x + self.mlp(self.ln2(x))"
LLAMA_FIRST_NORM = """        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
"""
LLAMA_SECOND_NORM = """        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
"""
LLAMA_SECOND_ADD = """        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
"""
LLAMA_FIRST_ADD = """        hidden_states = residual + hidden_states

        # Fully Connected
"""

RESIDUAL = [
    Fault(
        "N12",
        "residual",
        "skip-carries-norm",
        (
            (ATTEND, "x = self.ln1(x)\n        x = x + self.attn(x, cos, sin, pad_mask)"),
            (FEED, "x = self.ln2(x)\n        x = x + self.mlp(x)"),
        ),
        (
            (
                LLAMA_FIRST_NORM,
                "        hidden_states = residual = self.input_layernorm(hidden_states)\n",
            ),
            (
                LLAMA_SECOND_NORM,
                "        hidden_states = residual = self.post_attention_layernorm(hidden_states)\n",
            ),
        ),
    ),
    Fault(
        "N12-once",
        "residual",
        "skip-carries-norm",
        ((FEED, "x = self.ln2(x)\n        x = x + self.mlp(x)"),),
        (
            (
                LLAMA_FIRST_NORM,
                "        hidden_states = residual = self.input_layernorm(hidden_states)\n",
            ),
        ),
    ),
    Fault(
        "N14",
        "norm",
        "no-final-norm",
        (("self.lm_head(self.ln_f(x))", "self.lm_head(x)"),),
        (("        hidden_states = self.norm(hidden_states)\n", ""),),
    ),
    Fault(
        "X01",
        "residual",
        "branch-not-added",
        (
            (ATTEND, "h = x + self.attn(self.ln1(x), cos, sin, pad_mask)"),
            (FEED, "x = x + self.mlp(self.ln2(h))"),
        ),
        (
            (LLAMA_FIRST_NORM, LLAMA_FIRST_NORM.replace("residual =", "start = residual =")),
            (LLAMA_SECOND_ADD, LLAMA_SECOND_ADD.replace("= residual +", "= start +")),
        ),
    ),
    Fault(
        "no-skip-around-attention",
        "residual",
        "no-skip",
        ((ATTEND, ATTEND.replace("x + ", "")), (FEED, FEED.replace("x + ", ""))),
        (
            (LLAMA_FIRST_ADD, "        # Fully Connected\n"),
            (LLAMA_SECOND_ADD, "        hidden_states = self.mlp(hidden_states)\n"),
        ),
    ),
    Fault(
        "attention-added-twice",
        "residual",
        "branch-added-twice",
        ((ATTEND, ATTEND.replace("x + ", "x + 2 * ")),),
        ((LLAMA_FIRST_ADD, LLAMA_FIRST_ADD.replace("+ hidden", "+ 2 * hidden")),),
    ),
    Fault(
        "first-block-alone",
        "residual",
        "block-bypassed",
        (
            ("n_layer: int = 2", "n_layer: int = 3"),
            (
                "        for block in self.layers:\n            x =",
                "        for block in self.layers:\n            out =",
            ),
            ("self.ln_f(x)", "self.ln_f(out)"),
        ),
        (
            ("num_hidden_layers=2", "num_hidden_layers=3"),
            (
                "            hidden_states = decoder_layer(\n                hidden_states,",
                "            hidden_states = decoder_layer(\n                inputs_embeds,",
            ),
        ),
    ),
]

GATED = "return self.down(F.silu(self.gate(x)) * self.up(x))"
LLAMA_GATED = "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"

FEED_FORWARD = [
    Fault(
        "F01",
        "feed_forward",
        "activation-on-the-other-branch",
        ((GATED, "return self.down(self.gate(x) * F.silu(self.up(x)))"),),
        (
            (
                LLAMA_GATED,
                "down_proj = self.down_proj(self.gate_proj(x) * self.act_fn(self.up_proj(x)))",
            ),
        ),
    ),
    Fault(
        "F03",
        "feed_forward",
        "branch-left-out",
        ((GATED, "return self.down(F.silu(self.gate(x)))"),),
        ((LLAMA_GATED, "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)))"),),
    ),
    Fault(
        "no-activation",
        "feed_forward",
        "activation-missing",
        ((GATED, "return self.down(self.gate(x) + self.up(x))"),),
        ((LLAMA_GATED, "down_proj = self.down_proj(self.gate_proj(x) + self.up_proj(x))"),),
    ),
    Fault(
        "mean-over-positions",
        "feed_forward",
        "positions-mixed",
        ((GATED, "x = x - 0.01 * x.cumsum(1)\n        " + GATED),),
        ((LLAMA_GATED, "x = x - 0.01 * x.cumsum(1)\n        " + LLAMA_GATED),),
    ),
    Fault(
        "shifted-by-one-position",
        "feed_forward",
        "positions-mixed",
        ((GATED, "x = torch.roll(x, 1, 1)\n        " + GATED),),
        ((LLAMA_GATED, "x = torch.roll(x, 1, 1)\n        " + LLAMA_GATED),),
    ),
]

LLAMA_OUTPUT = "    attn_output = torch.matmul(attn_weights, value_states)\n"
BY_HAND_OUTPUT = "y = weights @ v"


def with_sinks(times):
    """Changes that give each host learned sinks, as a factor on the output, `times` in weight."""
    sinks = "self.sinks = nn.Parameter(torch.linspace(-1.0, 1.0, self.n_head))\n        "
    return (
        (
            ("self.wo = nn.Linear(", sinks + "self.wo = nn.Linear("),
            (
                BY_HAND_OUTPUT,
                f"share = scores.logsumexp(-1) - {times} * self.sinks[:, None]\n"
                f"            {BY_HAND_OUTPUT} * share.sigmoid()[..., None]",
            ),
        ),
        (
            (
                "self.o_proj = nn.Linear(",
                "self.sinks = nn.Parameter(torch.linspace(-1.0, 1.0, 6))\n"
                "        self.o_proj = nn.Linear(",
            ),
            (LLAMA_SOFTMAX, f"scores = attn_weights\n    {LLAMA_SOFTMAX}"),
            (
                LLAMA_OUTPUT,
                f"    share = scores.logsumexp(-1) - {times} * module.sinks[:, None]\n"
                "    attn_output = torch.matmul(attn_weights, value_states) * share.sigmoid()[..., None]\n",
            ),
        ),
    )


SINKS = [Fault("S03", "softmax", "sink-weight", *with_sinks(2.0))]
DESIGNS = [Fault("sinks", "softmax", None, *with_sinks(1.0))]
