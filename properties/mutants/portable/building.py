"""Faults of a model as it is built."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from theodolite.properties.mutants.registry import portable


@portable(
    "head-with-unit-variance",
    seam="built",
    component="init",
    breaks=("GPT-6",),
    source="huggingface/transformers#26441",
    needs=("untied",),
)
def _(original: Any, parts: Any) -> None:
    """The head starts with weights of variance 1."""
    del original
    nn.init.normal_(parts.head.weight)


@portable(
    "embedding-made-anew",
    seam="built",
    component="init",
    breaks=("GPT-6",),
    source="AnswerDotAI/ModernBERT#96",
    needs=("tied",),
)
def _(original: Any, parts: Any) -> None:
    """The embedding, which the head shares, is drawn anew with variance 1."""
    del original
    nn.init.normal_(parts.embedding.weight)


@portable("an-embedding-row-of-nan", seam="built", component="embedding", breaks=("GPT-7",))
def _(original: Any, parts: Any) -> None:
    """One token's vector was never initialised and holds NaN."""
    del original
    with torch.no_grad():
        parts.embedding.weight[5] = float("nan")


@portable(
    "blocks-in-a-list",
    seam="built",
    component="parameters",
    breaks=("AUD-12", "GPT-3"),
    source="EleutherAI/gpt-neox#267",
)
def _(original: Any, parts: Any) -> None:
    """The blocks are kept in a plain list: no parameter of theirs is registered."""
    del original
    blocks = parts.layers()
    delattr(parts.owner, parts.blocks)
    setattr(parts.owner, parts.blocks, blocks)


@portable("memory-never-initialised", seam="built", component="init", breaks=("AUD-9",))
def _(original: Any, parts: Any) -> None:
    """The final gain holds what the memory held before: here 1e30."""
    del original
    with torch.no_grad():
        gain = next(parts.final_norm.parameters())  # whatever it is called
        gain.fill_(1e30)


@portable("a-gain-that-nothing-fills", seam="built", component="init", breaks=("AUD-9",))
def _(original: Any, parts: Any) -> None:
    """The final norm's parameters are made by torch.empty, and left as the memory was."""
    del original
    for name, parameter in list(parts.final_norm.named_parameters()):
        setattr(parts.final_norm, name, nn.Parameter(torch.empty_like(parameter)))


@portable(
    "tie-broken-after-building",
    seam="built",
    component="tying",
    breaks=("GPT-3",),
    source="Modalities/modalities#357",
    needs=("tied",),
)
def _(original: Any, parts: Any) -> None:
    """The head's weight is made anew as a parameter of its own."""
    del original
    parts.head.weight = nn.Parameter(parts.head.weight.detach().clone())


@portable("tie-broken-by-a-cast", seam="built", component="tying", breaks=("AUD-9",))
def _(original: Any, parts: Any) -> None:
    """Embedding and head are two parameters that share memory: a cast takes them apart."""
    del original
    parts.head.weight = nn.Parameter(parts.embedding.weight.data)


@portable("a-parameter-that-nobody-uses", seam="built", component="parameters", breaks=("GPT-3",))
def _(original: Any, parts: Any) -> None:
    """A matrix is registered and never read."""
    del original
    parts.owner.left_over = nn.Parameter(torch.randn(17, 13))


@portable("weights-rounded-when-saved", seam="built", component="state", breaks=("AUD-9",))
def _(original: Any, parts: Any) -> None:
    """The state dict holds weights rounded to bfloat16, whatever the model computes in."""
    del original

    def round_all(_: nn.Module, state: dict[str, Any], *__: Any) -> None:
        for name, tensor in state.items():
            state[name] = tensor.bfloat16().to(tensor.dtype)

    parts.model.register_state_dict_post_hook(round_all)


@portable(
    "a-buffer-that-is-not-saved",
    seam="built",
    component="state",
    breaks=("AUD-9",),
    needs=("meta",),
)
def _(original: Any, parts: Any) -> None:
    """The head's input is scaled by a buffer that only construction fills."""
    del original
    parts.head.register_buffer("boost", torch.full((1,), 1.25), persistent=False)
    parts.head.register_forward_pre_hook(lambda head, given: (given[0] * head.boost,))
