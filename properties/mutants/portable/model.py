"""Faults of a whole model: vocabulary, batch, state, shapes, registration, initialisation, loss."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from theodolite.properties.mutants.registry import portable


def _embedding(model: nn.Module) -> nn.Embedding:
    return next(each for each in model.modules() if isinstance(each, nn.Embedding))


# -- in and out --------------------------------------------------------------------------------


@portable("an-id-written-in-the-code", seam="embed", component="embedding", breaks=("AUD-4",))
def _(original: Any, ids: Tensor) -> Tensor:
    """Token 7 is read as token 0."""
    return original(ids.masked_fill(ids == 7, 0))  # type: ignore[no-any-return]


@portable("ids-wrap-around", seam="forward", component="vocabulary", breaks=("GPT-7",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """An id outside the vocabulary is read as one inside it."""
    return original(ids % _embedding(model).num_embeddings)


@portable("embedding-of-the-next-token", seam="embed", component="embedding", breaks=("ATT-4",))
def _(original: Any, ids: Tensor) -> Tensor:
    """A tenth of the next token's vector is added to each token's own."""
    x: Tensor = original(ids)
    return x + 0.1 * x.roll(-1, -2)


@portable(
    "embedding-without-gradient",
    seam="embed",
    component="gradient",
    breaks=("AUD-12",),
    needs=("untied",),
)
def _(original: Any, ids: Tensor) -> Tensor:
    """Token vectors are detached: they never learn."""
    return original(ids).detach()  # type: ignore[no-any-return]


@portable("logits-overflow", seam="head", component="shape", breaks=("GPT-7",))
def _(original: Any, x: Tensor) -> Tensor:
    """Logits are multiplied until they are infinite."""
    return original(x) * 1e30 * 1e30  # type: ignore[no-any-return]


@portable("position-counted-over-the-batch", seam="head", component="batch", breaks=("AUD-3",))
def _(original: Any, x: Tensor) -> Tensor:
    """Logits of a row are scaled by its place in the batch: their order matters."""
    rows = torch.arange(len(x), dtype=x.dtype)
    return original(x) * (1 + 0.01 * rows[:, None, None])  # type: ignore[no-any-return]


@portable("logits-centred-over-the-batch", seam="head", component="batch", breaks=("AUD-3",))
def _(original: Any, x: Tensor) -> Tensor:
    """The mean over the rows is taken from the logits."""
    logits: Tensor = original(x)
    return logits - logits.mean(0, keepdim=True)


@portable("logits-in-half-precision", seam="head", component="dtype", breaks=("AUD-8",))
def _(original: Any, x: Tensor) -> Tensor:
    """Logits are rounded to bfloat16 and cast back."""
    return original(x).bfloat16().to(x.dtype)  # type: ignore[no-any-return]


@portable("last-position-from-the-length", seam="head", component="shape", breaks=("AUD-11",))
def _(original: Any, x: Tensor) -> Tensor:
    """A single token is squeezed away, and its logits come without their axis of time."""
    return original(x).squeeze(1)  # type: ignore[no-any-return]


@portable("logits-fade-with-position", seam="head", component="position", breaks=("AUD-1",))
def _(original: Any, x: Tensor) -> Tensor:
    """Logits fade with the position: a thousandth less at each."""
    fading = 1 - 0.001 * torch.arange(x.shape[-2], dtype=x.dtype)[:, None]
    return original(x * fading)  # type: ignore[no-any-return]


# -- state and shapes --------------------------------------------------------------------------


@portable("ids-modified-in-place", seam="forward", component="state", breaks=("AUD-9",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """The ids that a caller gives are overwritten."""
    del model
    result = original(ids.clone())
    ids[:, 0] = 0
    return result


@portable("embedding-modified-in-place", seam="forward", component="state", breaks=("AUD-9",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """Every forward shrinks the embedding a little."""
    if not torch.is_grad_enabled():
        _embedding(model).weight.data.mul_(0.999)
    return original(ids)


@portable("a-forward-remembers", seam="forward", component="state", breaks=("GPT-8",))
def _(original: Any, model: Any, ids: Tensor) -> Any:
    """The second call of a model reads its first token as another one."""
    calls = model.__dict__.setdefault("calls_so_far", [0])
    calls[0] += 1
    return original(torch.cat(((ids[:, :1] + calls[0]) % 7, ids[:, 1:]), 1))


@portable("training-mode-switched-on", seam="forward", component="state", breaks=("AUD-9",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """A forward leaves the model in training mode."""
    result = original(ids)
    model.train()
    return result


@portable("generator-seeded-by-the-forward", seam="forward", component="state", breaks=("AUD-9",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """A forward sets the seed of everybody's random numbers."""
    del model
    torch.manual_seed(0)
    return original(ids)


@portable("forward-without-gradient", seam="forward", component="gradient", breaks=("AUD-12",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """The whole forward runs under no_grad."""
    del model
    with torch.no_grad():
        return original(ids)


@portable("ids-read-as-they-lie", seam="forward", component="shape", breaks=("AUD-11",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """Ids are read from memory in storage order, whatever their strides."""
    del model
    return original(ids.as_strided(ids.shape, (ids.shape[1], 1)))


@portable("one-length-only", seam="forward", component="shape", breaks=("AUD-11",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """The model runs at a length of 16 alone."""
    del model
    if ids.shape[1] != 16:
        raise ValueError("give 16 tokens")
    return original(ids)


@portable("rows-after-the-first-repeat-it", seam="forward", component="batch", breaks=("AUD-3",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """Every row of a batch is answered as if it were the first."""
    del model
    return original(ids[:1].expand_as(ids).contiguous())


@portable("first-token-never-read", seam="forward", component="embedding", breaks=("ATT-5",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """The first token of every sequence is read as token 0."""
    del model
    return original(torch.cat((ids[:, :1] * 0, ids[:, 1:]), 1))


# -- building ----------------------------------------------------------------------------------


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
        parts.final_norm.weight.fill_(1e30)


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


@portable("one-block-for-all", seam="built", component="parameters", breaks=("GPT-1",))
def _(original: Any, parts: Any) -> None:
    """All layers are the first block, run again and again, though as many were declared."""
    del original
    blocks = getattr(parts.owner, parts.blocks)
    for number in range(1, len(blocks)):
        blocks[number] = blocks[0]


# -- the loss ----------------------------------------------------------------------------------


@portable(
    "loss-shifted-twice",
    seam="loss",
    component="loss",
    breaks=("AUD-10",),
    source="huggingface/transformers#47394",
)
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """The loss shifts what was shifted already: logits learn the token after the next."""
    return original(logits[:, :-1], targets[:, 1:])  # type: ignore[no-any-return]


@portable(
    "loss-does-not-shift-in-the-model",
    seam="loss",
    component="loss",
    breaks=("AUD-10",),
    source="huggingface/transformers#27517",
    needs=("shift",),
)
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """Logits are held against the token that they have just read."""
    return original(logits[:, 1:], targets[:, :-1])  # type: ignore[no-any-return]


@portable(
    "ignored-targets-count",
    seam="loss",
    component="loss",
    breaks=("GPT-5",),
    source="lukas-blecher/LaTeX-OCR#305",
)
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """Targets that should not count are learnt as token 0."""
    return original(logits, targets.clamp_min(0))  # type: ignore[no-any-return]


@portable("loss-mean-over-rows", seam="loss", component="loss", breaks=("AUD-10",))
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """Each row counts alike, however many of its targets count."""
    if logits.dim() != 3:
        return original(logits, targets)  # type: ignore[no-any-return]
    rows = [original(row[None], wanted[None]) for row, wanted in zip(logits, targets, strict=True)]
    return torch.stack(rows).mean()


@portable("loss-summed", seam="loss", component="loss", breaks=("GPT-5",))
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """The loss is the sum over the tokens, not their mean."""
    return original(logits, targets) * (targets != -100).sum()  # type: ignore[no-any-return]


@portable("ignored-tokens-in-the-denominator", seam="loss", component="loss", breaks=("GPT-5",))
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """The sum is divided by the number of all tokens, those that do not count included."""
    return original(logits, targets) * (targets != -100).float().mean()  # type: ignore[no-any-return]


@portable("loss-in-bits", seam="loss", component="loss", breaks=("GPT-5", "GPT-6"))
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """The logarithm is to base two."""
    return original(logits, targets) / 0.6931471805599453  # type: ignore[no-any-return]


@portable("loss-with-smoothed-labels", seam="loss", component="loss", breaks=("GPT-5",))
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """A tenth of each target is spread over the vocabulary."""
    del original
    flat = logits.flatten(0, -2)
    return F.cross_entropy(flat, targets.flatten(), ignore_index=-100, label_smoothing=0.1)


@portable("loss-of-probabilities", seam="loss", component="loss", breaks=("GPT-5", "GPT-6"))
def _(original: Any, logits: Tensor, targets: Tensor) -> Tensor:
    """Softmax is taken before the cross-entropy, which takes it again."""
    return original(logits.softmax(-1), targets)  # type: ignore[no-any-return]


# -- dropout -----------------------------------------------------------------------------------


@portable(
    "dropout-in-evaluation",
    seam="dropout",
    component="dropout",
    breaks=("GPT-8",),
    source="meta-pytorch/torchtune#1791",
    needs=("dropout",),
)
def _(original: Any, x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout knows no evaluation mode."""
    del training
    return original(x, p, True)  # type: ignore[no-any-return]
