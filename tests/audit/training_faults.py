# ruff: noqa: E501, ISC004 - lines of other people's code are replaced as they stand
"""Faults of precision, backends and gradients, in hand-written models and in patched libraries."""

from dataclasses import dataclass, field
from pathlib import Path

from hosts import changed, huggingface_source, written

FOLDER = Path(__file__).parent / "models"

NAMES = {"llama": "Llama", "gpt2": "GPT2"}


def library_source(family, *, attention="eager"):
    """The library's own source of a family, with `small`, a model that can switch its attention."""
    source = huggingface_source(family, attention=attention)
    # the library looks for the source among imported modules, and a subject's file is none
    allowed = f"{NAMES[family]}PreTrainedModel._can_set_attn_implementation_cached_value = True"
    return source.replace("def small():", f"{allowed}\n\n\ndef small():")


@dataclass(frozen=True)
class Fault:
    """One fault, and where it is made.

    Attributes:
        id: The reported fault, or words.
        component: The component to be accused.
        hosts: Host → (old, new) pairs.
        settings: Of the hand-written models.
        library: Of the libraries' models.
        checks: Those that know of it: one of them at least must fail.
    """

    id: str
    component: str
    hosts: dict
    settings: dict = field(default_factory=dict)
    library: dict = field(default_factory=dict)
    checks: tuple = field(kw_only=True)

    def source(self, host):
        """The model without the fault."""
        if host in NAMES:
            return library_source(host, **self.library)
        return (FOLDER / f"{host}.py").read_text(encoding="utf-8")

    def write(self, folder, host):
        """Write the faulty model to `folder` and name it as a subject."""
        name = "small" if host in NAMES else "Model"
        return written(changed(self.source(host), self.hosts[host], self.id), folder, name)


ANGLES = "angles = positions[..., None].float() * freqs"
LLAMA_ANGLES = (
    "freqs = position_ids[..., None].float() * self.inv_freq.to(device=x.device, dtype=torch.float)"
)
SCORES = "scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)"
LLAMA_SCORES = "attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling"
GPT2_SCORES = "attn_weights = torch.matmul(query, key.transpose(-1, -2)) * scaling"
MASKED = 'weights = scores.masked_fill(mask, float("-inf")).softmax(dim=-1)'
BACKWARD = "grad_x = inverse * (grad_normed - normed * along)"
ATTENDED = "x = x + self.drop(self.attn(self.norm1(x), cos, sin))"
LLAMA_ATTENDED = """        hidden_states = residual + hidden_states

        # Fully Connected"""
GPT2_ATTENDED = "hidden_states = attn_output + residual"
CHECKPOINT = "x = checkpoint(layer, x, cos, sin, use_reentrant=False)"
LLAMA_LAYER = """        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
"""
GPT2_LAYER = """        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
"""
GPT2_MLP = "hidden_states = self.act(hidden_states)"

STRAIGHT = """

class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return {forward}

    @staticmethod
    def backward(ctx, grad):
        return grad


"""
"""A function whose backward hands the gradient on as it comes, as if it did nothing."""

LLAMA_MLP = "self.act_fn(self.gate_proj(x))"

PRECISION = [
    Fault(
        "R01",
        "dtype",
        {
            "training": [(ANGLES, "angles = positions[..., None].to(x.dtype) * freqs.to(x.dtype)")],
            "llama": [
                (
                    LLAMA_ANGLES,
                    "freqs = position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype)",
                )
            ],
        },
        checks=("precision.late",),
    ),
    Fault(
        "R01, only positions",
        "dtype",
        {
            "training": [(ANGLES, "angles = positions[..., None].to(x.dtype).float() * freqs")],
            "llama": [
                (
                    LLAMA_ANGLES,
                    LLAMA_ANGLES.replace("[..., None].float()", "[..., None].to(x.dtype).float()"),
                )
            ],
        },
        checks=("precision.late",),
    ),
    Fault(
        "R01, only angles",
        "dtype",
        {
            "training": [(ANGLES, f"{ANGLES}\n    angles = angles.to(x.dtype)")],
            "llama": [(LLAMA_ANGLES, f"{LLAMA_ANGLES}\n        freqs = freqs.to(x.dtype)")],
        },
        checks=("precision.late",),
    ),
    Fault(
        "angles multiplied under autocast",
        "dtype",
        {
            "training": [
                (ANGLES, "angles = positions[..., None].float() @ freqs[None]"),
            ],
            "llama": [
                (
                    LLAMA_ANGLES,
                    "freqs = position_ids[..., None].float() @ self.inv_freq.float()[None]",
                )
            ],
        },
        checks=("precision.late",),
    ),
    Fault(
        "large bias on all scores",
        "dtype",
        {
            "training": [(SCORES, f"{SCORES} + 1e3")],
            "llama": [(LLAMA_SCORES, f"{LLAMA_SCORES} + 1e3")],
            "gpt2": [(GPT2_SCORES, f"{GPT2_SCORES} + 1e3")],
        },
        checks=("precision.half",),
    ),
    Fault(
        "infinity times nothing",
        "dtype",
        {
            "training": [
                (
                    MASKED,
                    "weights = (scores + mask.to(x.dtype) * torch.tensor(-1e9, dtype=x.dtype)).softmax(-1)",
                )
            ],
            "llama": [
                (
                    "attn_weights = attn_weights + attention_mask",
                    "hidden = (attention_mask < 0).to(query.dtype)\n"
                    "        attn_weights = attn_weights + hidden * torch.tensor(-1e9, dtype=query.dtype)",
                )
            ],
            "gpt2": [
                (
                    "        attn_weights = attn_weights + attention_mask\n\n    attn_weights",
                    "        hidden = (attention_mask < 0).to(query.dtype)\n"
                    "        attn_weights = attn_weights + hidden * torch.tensor(-1e9, dtype=query.dtype)\n\n    attn_weights",
                )
            ],
        },
        checks=("precision.half",),
    ),
    Fault(
        "squares that pass 65504",
        "dtype",
        {
            "training": [
                ("x32 = x.float()", "x32 = x * 256"),
                ("mean(-1, keepdim=True) + eps)", "mean(-1, keepdim=True) + 65536 * eps)"),
                (
                    "ctx.save_for_backward(normed, inverse, weight)",
                    "ctx.save_for_backward(normed, inverse * 256, weight)",
                ),
            ],
            "llama": [
                (
                    "hidden_states = hidden_states.to(torch.float32)\n",
                    "hidden_states = hidden_states * 256\n",
                ),
                ("variance + self.variance_epsilon", "variance + 65536 * self.variance_epsilon"),
            ],
        },
        checks=("precision.half",),
    ),
    Fault(
        "scores kept in eight bits",
        "dtype",
        {
            "training": [
                (
                    SCORES,
                    f"{SCORES}\n        scores = (scores * 4).half().float().add(2048).to(x.dtype).sub(2048).div(4)",
                )
            ],
        },
        checks=("precision.half",),
    ),
]

GRADIENT = [
    Fault(
        "R17",
        "gradient",
        {
            "training": [
                ("def rotate(x, cos, sin):", "@torch.no_grad()\ndef rotate(x, cos, sin):")
            ],
            "llama": [("def apply_rotary_pos_emb(", "@torch.no_grad()\ndef apply_rotary_pos_emb(")],
        },
        checks=("gradient.every_parameter", "gradient.slope"),
    ),
    Fault(
        "norm's backward without the projection",
        "gradient",
        {"training": [(BACKWARD, "grad_x = inverse * grad_normed")]},
        checks=("gradient.slope",),
    ),
    Fault(
        "norm's backward with the wrong sign",
        "gradient",
        {"training": [(BACKWARD, BACKWARD.replace("- normed", "+ normed"))]},
        checks=("gradient.slope",),
    ),
    Fault(
        "norm's weight summed over one axis",
        "gradient",
        {
            "training": [
                (
                    "grad_weight = (grad.float() * normed).flatten(0, -2).sum(0)",
                    "grad_weight = (grad.float() * normed).mean(0).sum(0)",
                )
            ]
        },
        checks=("gradient.slope",),
    ),
    Fault(
        "gate's backward without its product",
        "gradient",
        {"training": [("(s + gate * s * (1 - s))", "s")]},
        checks=("gradient.slope",),
    ),
    Fault(
        "gradient handed on as it comes",
        "gradient",
        {
            "training": [
                (
                    "class Attention(nn.Module):",
                    STRAIGHT.format(forward="x.softmax(-1)") + "class Attention(nn.Module):",
                ),
                (MASKED, 'weights = _Straight.apply(scores.masked_fill(mask, float("-inf")))'),
            ],
            "llama": [
                (
                    "class LlamaMLP(nn.Module):",
                    STRAIGHT.format(forward="nn.functional.silu(x)") + "class LlamaMLP(nn.Module):",
                ),
                (LLAMA_MLP, "_Straight.apply(self.gate_proj(x))"),
            ],
            "gpt2": [
                (
                    "class GPT2MLP(nn.Module):",
                    STRAIGHT.format(forward="nn.functional.gelu(x, approximate='tanh')")
                    + "class GPT2MLP(nn.Module):",
                ),
                (GPT2_MLP, "hidden_states = _Straight.apply(hidden_states)"),
            ],
        },
        checks=("gradient.slope",),
    ),
    Fault(
        "trunk detached",
        "gradient",
        {
            "training": [(ATTENDED, ATTENDED.replace("x = x +", "x = x.detach() +"))],
            "llama": [
                (LLAMA_ATTENDED, LLAMA_ATTENDED.replace("= residual +", "= residual.detach() +"))
            ],
            "gpt2": [(GPT2_ATTENDED, f"{GPT2_ATTENDED}.detach()")],
        },
        checks=("gradient.slope",),
    ),
    Fault(
        "statistics detached",
        "gradient",
        {
            "llama": [
                (
                    "variance = hidden_states.pow(2).mean(-1, keepdim=True)",
                    "variance = hidden_states.pow(2).mean(-1, keepdim=True).detach()",
                )
            ],
        },
        checks=("gradient.slope",),
    ),
    Fault(
        "scores detached",
        "gradient",
        {
            "gpt2": [(GPT2_SCORES, GPT2_SCORES.replace("query,", "query.detach(),"))],
            "llama": [(LLAMA_SCORES, LLAMA_SCORES.replace("key_states.", "key_states.detach()."))],
            "training": [(SCORES, SCORES.replace("q @", "q.detach() @"))],
        },
        checks=("gradient.slope",),
    ),
    Fault(
        "checkpoint draws dropout anew",
        "gradient",
        {
            "training": [
                (
                    CHECKPOINT,
                    CHECKPOINT.replace(
                        "use_reentrant=False", "use_reentrant=False, preserve_rng_state=False"
                    ),
                )
            ],
        },
        {"config.dropout": 0.1},
        checks=("gradient.checkpointing",),
    ),
    Fault(
        "checkpoint without its rotation",
        "gradient",
        {
            "training": [
                (
                    CHECKPOINT,
                    CHECKPOINT.replace("cos, sin", "torch.ones_like(cos), torch.zeros_like(sin)"),
                )
            ],
            "llama": [
                (
                    LLAMA_LAYER,
                    "        if self.gradient_checkpointing and self.training:\n"
                    "            cos, sin = position_embeddings\n"
                    "            position_embeddings = torch.ones_like(cos), torch.zeros_like(sin)\n"
                    + LLAMA_LAYER,
                )
            ],
        },
        checks=("gradient.checkpointing",),
    ),
    Fault(
        "checkpoint without its mask",
        "gradient",
        {
            "llama": [
                (
                    LLAMA_LAYER,
                    "        if self.gradient_checkpointing and self.training:\n            attention_mask = None\n"
                    + LLAMA_LAYER,
                )
            ],
            "gpt2": [
                (
                    GPT2_LAYER,
                    "        if self.gradient_checkpointing and self.training:\n            attention_mask = None\n"
                    + GPT2_LAYER,
                )
            ],
        },
        checks=("gradient.checkpointing",),
    ),
    Fault(
        "second forward sees a state of the first",
        "gradient",
        {
            "training": [
                (ATTENDED, f"self.calls += 1\n        x = x / self.calls\n        {ATTENDED}"),
                (
                    "for layer in self.layers:",
                    "for layer in self.layers:\n            layer.calls = 0",
                ),
            ],
        },
        checks=("gradient.checkpointing",),
    ),
    Fault(
        "checkpoint of a detached input",
        "gradient",
        {"training": [(CHECKPOINT, CHECKPOINT.replace("layer, x,", "layer, x.detach(),"))]},
        checks=("gradient.checkpointing",),
    ),
]

SDPA = {"attention": "sdpa"}
LLAMA_CALL = "scaling=self.scaling,"
EAGER = 'self.config._attn_implementation == "eager"'

BACKEND = [
    Fault(
        "C02",
        "backend",
        {
            "by_hand": [
                (
                    "q, k, v, attn_mask=mask, dropout_p",
                    "q, k, v, attn_mask=mask, scale=1.0, dropout_p",
                )
            ],
            "llama": [(LLAMA_CALL, f"scaling=self.scaling if not {EAGER} else 1.0,")],
            "gpt2": [(LLAMA_CALL, f"scaling=self.scaling if not {EAGER} else 1.0,")],
        },
        library=SDPA,
        checks=("backend.agree",),
    ),
    Fault(
        "W02",
        "backend",
        {
            "serving": [
                (
                    "y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)",
                    "far = torch.finfo(x.dtype).min * torch.ones_like(bias).triu(1 + k.size(2) - T)\n"
                    "            y = F.scaled_dot_product_attention(q, k, v, attn_mask=far)",
                )
            ]
        },
        {"config.window": 5},
        checks=("backend.agree",),
    ),
    Fault(
        "M13",
        "backend",
        {
            "serving": [
                (
                    "bias = bias.masked_fill(~mask, torch.finfo(x.dtype).min)",
                    "lowest = torch.finfo(x.dtype).min\n"
                    "        bias = bias.masked_fill(~mask, lowest)\n"
                    "        if not self.training:\n"
                    "            bias = torch.zeros_like(bias).masked_fill(bias != 0, lowest)",
                )
            ]
        },
        {"config.scheme": "alibi"},
        checks=("backend.modes",),
    ),
    Fault(
        "mask of one backend shifted",
        "backend",
        {
            "llama": [
                (
                    "attn_weights = attn_weights + attention_mask",
                    "attn_weights = attn_weights + 0.5 * attention_mask.clamp(min=-4)",
                )
            ],
            "gpt2": [
                (
                    "        attn_weights = attn_weights + attention_mask\n\n    attn_weights",
                    "        attn_weights = attn_weights + 0.5 * attention_mask.clamp(min=-4)\n\n    attn_weights",
                )
            ],
        },
        library=SDPA,
        checks=("backend.agree",),
    ),
    Fault(
        "flex without its scale",
        "backend",
        {
            "llama": [
                (
                    LLAMA_CALL,
                    'scaling=self.scaling if self.config._attn_implementation != "flex_attention" else 1.0,',
                )
            ],
        },
        library=SDPA,
        checks=("backend.agree",),
    ),
]

FAULTS = [*PRECISION, *GRADIENT, *BACKEND]

COMPILED = [
    Fault(
        "scale lost when compiled",
        "backend",
        {
            "training": [
                (
                    SCORES,
                    f"{SCORES}\n        if torch.compiler.is_compiling():\n            scores = scores * 2",
                )
            ]
        },
        checks=("backend.compiled", "backend.exported"),
    ),
    Fault(
        "mask left out of the export",
        "backend",
        {
            "training": [
                (
                    MASKED,
                    f"if torch.compiler.is_exporting():\n            mask = torch.zeros_like(mask)\n        {MASKED}",
                )
            ]
        },
        checks=("backend.exported",),
    ),
]
"""Faults of what a compiler sees: judged in the thorough budget."""
