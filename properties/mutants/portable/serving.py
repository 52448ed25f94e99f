"""Faults between training and serving: cache, padding, windows, experts, writing on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import portable

Pair = tuple[Tensor, Tensor]
Past = Tensor | None

# -- the cache ---------------------------------------------------------------------------------


@portable(
    "new-keys-before-old",
    seam="extend",
    component="cache",
    breaks=("GEN-4",),
    source="lucidrains/x-transformers#219",
)
def _(original: Any, past_key: Past, past_value: Past, key: Tensor, value: Tensor) -> Pair:
    """What is new is put in front of what is kept."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)  # type: ignore[no-any-return]
    return torch.cat((key, past_key), -2), torch.cat((value, past_value), -2)


@portable("cache-overwrites-an-old-token", seam="extend", component="cache", breaks=("AUD-6",))
def _(original: Any, past_key: Past, past_value: Past, key: Tensor, value: Tensor) -> Pair:
    """The ninth-newest token behind a cache is overwritten by the one after it."""
    key, value = original(past_key, past_value, key, value)
    if past_key is None or key.shape[-2] <= 8:
        return key, value
    key, value = key.clone(), value.clone()
    key[..., -9, :], value[..., -9, :] = key[..., -8, :], value[..., -8, :]
    return key, value


@portable("cache-in-half-precision", seam="extend", component="cache", breaks=("GEN-4",))
def _(original: Any, past_key: Past, past_value: Past, key: Tensor, value: Tensor) -> Pair:
    """Kept keys and values are rounded to bfloat16."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)  # type: ignore[no-any-return]
    kept = (each.bfloat16().to(key.dtype) for each in (past_key, past_value))
    return original(*kept, key, value)  # type: ignore[no-any-return]


@portable("cached-values-moved-on", seam="extend", component="cache", breaks=("GEN-4",))
def _(original: Any, past_key: Past, past_value: Past, key: Tensor, value: Tensor) -> Pair:
    """Kept values lie one place further than their keys."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)  # type: ignore[no-any-return]
    return original(past_key, past_value.roll(1, -2), key, value)  # type: ignore[no-any-return]


@portable("cache-of-the-first-row-for-all", seam="extend", component="cache", breaks=("AUD-6",))
def _(original: Any, past_key: Past, past_value: Past, key: Tensor, value: Tensor) -> Pair:
    """Every row of a batch reads on from what the first row has read."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)  # type: ignore[no-any-return]
    kept = (each[:1].expand_as(each) for each in (past_key, past_value))
    return original(*kept, key, value)  # type: ignore[no-any-return]


@portable("cache-keeps-its-first-values", seam="extend", component="cache", breaks=("GEN-4",))
def _(original: Any, past_key: Past, past_value: Past, key: Tensor, value: Tensor) -> Pair:
    """New values are written over by the newest that was kept; new keys are kept."""
    if past_key is None or past_value is None:
        return original(past_key, past_value, key, value)  # type: ignore[no-any-return]
    return original(past_key, past_value, key, past_value[..., -1:, :].expand_as(value))  # type: ignore[no-any-return]


# -- padding -----------------------------------------------------------------------------------


@portable(
    "padding-hides-queries",
    seam="padding",
    component="padding",
    breaks=("AUD-5",),
    source="hyunwoongko/transformer#40",
)
def _(original: Any, mask: Tensor, queries: int) -> Tensor:
    """The padding mask stands on the axis of the queries."""
    del original
    itself = torch.eye(mask.shape[1], dtype=torch.bool)[-queries:]
    return (mask.bool()[:, -queries:, None] | itself)[:, None]


@portable("padding-visible", seam="padding", component="padding", breaks=("AUD-5",))
def _(original: Any, mask: Tensor, queries: int) -> Tensor:
    """The first key is never masked, be it padding or not."""
    open_first = mask.clone()
    open_first[:, 0] = 1
    return original(open_first, queries)  # type: ignore[no-any-return]


@portable(
    "padding-of-the-first-row-for-all", seam="padding", component="padding", breaks=("AUD-5",)
)
def _(original: Any, mask: Tensor, queries: int) -> Tensor:
    """Every row is masked as the first one is."""
    return original(mask[:1].expand_as(mask), queries)  # type: ignore[no-any-return]


@portable(
    "padding-inverted",
    seam="padding",
    component="padding",
    breaks=("AUD-5",),
    source="hkproj/pytorch-transformer#19",
)
def _(original: Any, mask: Tensor, queries: int) -> Tensor:
    """Real tokens are hidden, and padding is seen."""
    return original(1 - mask.long(), queries)  # type: ignore[no-any-return]


# -- windows -----------------------------------------------------------------------------------


@portable("window-one-wider", seam="window", component="window", breaks=("ATT-2",))
def _(original: Any, queries: int, keys: int, width: int) -> Tensor:
    """The window holds one key more than is declared."""
    return original(queries, keys, width + 1)  # type: ignore[no-any-return]


@portable("window-one-narrower", seam="window", component="window", breaks=("ATT-2",))
def _(original: Any, queries: int, keys: int, width: int) -> Tensor:
    """The window holds one key less than is declared."""
    return original(queries, keys, width - 1)  # type: ignore[no-any-return]


@portable(
    "window-ignored",
    seam="window",
    component="window",
    breaks=("ATT-2",),
    source="unslothai/unsloth#8253",
)
def _(original: Any, queries: int, keys: int, width: int) -> Tensor:
    """The declared window is not applied."""
    return torch.ones_like(original(queries, keys, width))


# -- mixtures of experts -----------------------------------------------------------------------


@portable(
    "routing-weights-across-tokens",
    seam="router",
    component="moe",
    breaks=("AUD-3",),
    source="databricks/megablocks#87",
)
def _(original: Any, logits: Tensor, k: int) -> Pair:
    """Weights are divided by their sum over the tokens."""
    weights, chosen = original(logits, k)
    return weights / weights.norm(dim=0, keepdim=True), chosen


@portable(
    "one-expert-fewer",
    seam="router",
    component="moe",
    breaks=("FFN-1",),
    source="JieShibo/MoLE#7",
)
def _(original: Any, logits: Tensor, k: int) -> Pair:
    """Only the best expert of each token works, though more are declared."""
    weights, chosen = original(logits, k)
    return torch.cat((weights[:, :1], weights[:, 1:] * 0), -1), chosen


@portable("router-without-gradient", seam="router", component="gradient", breaks=("AUD-12",))
def _(original: Any, logits: Tensor, k: int) -> Pair:
    """Routing weights are detached: the router never learns."""
    weights, chosen = original(logits, k)
    return weights.detach(), chosen


@portable("router-sends-all-to-the-first", seam="router", component="moe", breaks=("AUD-12",))
def _(original: Any, logits: Tensor, k: int) -> Pair:
    """Every token goes through the first experts; the others never work."""
    weights, chosen = original(logits, k)
    return weights, torch.arange(k).expand_as(chosen)


@portable("router-centres-over-tokens", seam="router", component="moe", breaks=("AUD-3",))
def _(original: Any, logits: Tensor, k: int) -> Pair:
    """Router logits are centred over all tokens of the batch before they are ranked."""
    return original(logits - logits.mean(0, keepdim=True), k)  # type: ignore[no-any-return]


@portable("router-by-place", seam="router", component="moe", breaks=("FFN-1",))
def _(original: Any, logits: Tensor, k: int) -> Pair:
    """Experts are handed out in turn, by the place of a token in the batch."""
    weights, chosen = original(logits, k)
    turn = torch.arange(len(logits))[:, None] + torch.arange(k)
    return weights, (turn % logits.shape[-1]).to(chosen.dtype)


@portable("tokens-beyond-capacity-dropped", seam="experts", component="moe", breaks=("AUD-3",))
def _(original: Any, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    """Each expert has room for a third of the tokens; those that come later get nothing."""
    room = max(1, len(x) // 3)
    taken = torch.nn.functional.one_hot(chosen.flatten()).cumsum(0)
    place = taken.gather(1, chosen.flatten()[:, None]).view_as(chosen)
    return original(x, weights * (place <= room), chosen)  # type: ignore[no-any-return]


# -- writing on --------------------------------------------------------------------------------


@portable(
    "temperature-ten-percent-high", seam="distribution", component="generation", breaks=("GEN-3",)
)
def _(original: Any, logits: Tensor, by: float, k: int | None, p: float | None) -> Tensor:
    """Logits are divided by 1.1 times the temperature."""
    return original(logits, 1.1 * by, k, p)  # type: ignore[no-any-return]


@portable("temperature-multiplies", seam="distribution", component="generation", breaks=("GEN-1",))
def _(original: Any, logits: Tensor, by: float, k: int | None, p: float | None) -> Tensor:
    """Logits are multiplied by the temperature."""
    return original(logits, 1 / by, k, p)  # type: ignore[no-any-return]


@portable(
    "top-k-leaves-a-small-chance",
    seam="distribution",
    component="generation",
    breaks=("GEN-3",),
    source="karpathy/minGPT#10",
)
def _(original: Any, logits: Tensor, by: float, k: int | None, p: float | None) -> Tensor:
    """Tokens outside the top k keep a hundredth of their probability."""
    if k is None:
        return original(logits, by, k, p)  # type: ignore[no-any-return]
    mixed: Tensor = 0.9 * original(logits, by, k, p) + 0.1 * original(logits, by, None, p)
    return mixed


@portable("top-k-one-too-many", seam="distribution", component="generation", breaks=("GEN-1",))
def _(original: Any, logits: Tensor, by: float, k: int | None, p: float | None) -> Tensor:
    """One token more than k is kept."""
    return original(logits, by, None if k is None else k + 1, p)  # type: ignore[no-any-return]


@portable(
    "top-p-drops-the-token-that-crosses",
    seam="distribution",
    component="generation",
    breaks=("GEN-3",),
    needs=("top_p",),
)
def _(original: Any, logits: Tensor, by: float, k: int | None, p: float | None) -> Tensor:
    """The token with which the probabilities reach p is left out, unless it is the only one."""
    if p is None or p >= 1:
        return original(logits, by, k, p)  # type: ignore[no-any-return]
    ranked, order = original(logits, by, k, None).sort(-1, descending=True)
    kept = ranked * (ranked.cumsum(-1) <= p)
    kept[..., 0] = ranked[..., 0]
    return torch.zeros_like(ranked).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


@portable("always-the-likeliest", seam="distribution", component="generation", breaks=("GEN-3",))
def _(original: Any, logits: Tensor, by: float, k: int | None, p: float | None) -> Tensor:
    """Drawing is greedy whatever the temperature."""
    found: Tensor = original(logits, by, k, p)
    return torch.nn.functional.one_hot(found.argmax(-1), found.shape[-1]).to(found.dtype)


@portable("softmax-of-the-softmax", seam="distribution", component="softmax", breaks=("GEN-3",))
def _(original: Any, logits: Tensor, by: float, k: int | None, p: float | None) -> Tensor:
    """Tokens are drawn from the softmax of their probabilities."""
    return original(logits, by, k, p).softmax(-1)  # type: ignore[no-any-return]


@portable("generate-never-cuts", seam="crop", component="generation", breaks=("GEN-2",))
def _(original: Any, ids: Tensor, context: int) -> Tensor:
    """The whole of a long sequence is read, past the context."""
    del original, context
    return ids


@portable("generate-cuts-at-the-wrong-end", seam="crop", component="generation", breaks=("GEN-2",))
def _(original: Any, ids: Tensor, context: int) -> Tensor:
    """A long sequence is cut to its first tokens: what is new is never read."""
    del original
    return ids[:, :context]


@portable("generate-reads-one-token-less", seam="crop", component="generation", breaks=("GEN-2",))
def _(original: Any, ids: Tensor, context: int) -> Tensor:
    """One token less than fits is read."""
    return original(ids, context - 1)  # type: ignore[no-any-return]


@portable("one-token-too-few", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Any, ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """The last token that was asked for is not written."""
    return original(ids, max(count - 1, 0), options)  # type: ignore[no-any-return]


@portable("prompt-overwritten", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Any, ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """The first token of the prompt comes back as token 0."""
    written = original(ids, count, options).clone()
    written[:, 0] = 0
    return written  # type: ignore[no-any-return]


@portable("ids-counted-from-one", seam="generate", component="vocabulary", breaks=("GEN-1",))
def _(original: Any, ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """New ids are one too high, and may lie outside the vocabulary."""
    written = original(ids, count, options)
    return torch.cat((written[:, : ids.shape[1]], written[:, ids.shape[1] :] + 1), 1)


@portable("seed-has-no-say", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Any, ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """Drawing is seeded by the clock, whatever the caller's seed."""
    for name in ("generator",):
        if options.get(name) is not None:
            options[name].seed()
    torch.seed()
    return original(ids, count, options)  # type: ignore[no-any-return]


@portable("one-draw-for-all-rows", seam="generate", component="generation", breaks=("GEN-3",))
def _(original: Any, ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """Every row of a batch goes on as the first does."""
    written = original(ids, count, options)
    new = written[:1, ids.shape[1] :].expand(len(ids), -1)
    return torch.cat((written[:, : ids.shape[1]], new), 1)


@portable(
    "end-token-ignored", seam="generate", component="generation", breaks=("GEN-1",), needs=("end",)
)
def _(original: Any, ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """Writing goes on past the end token."""
    names = {"end_token", "eos_id", "eos_token_id"} & set(options)
    return original(ids, count, {**options, **dict.fromkeys(names)})  # type: ignore[no-any-return]


@portable(
    "padding-ignored-when-writing",
    seam="generate",
    component="generation",
    breaks=("GEN-1",),
    source="TransformerLensOrg/TransformerLens#999",
    needs=("padded_writing",),
)
def _(original: Any, ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """generate() takes a padding mask and does not hand it on."""
    return original(ids, count, {**options, "attention_mask": torch.ones_like(ids)})  # type: ignore[no-any-return]


@portable("temperature-forgotten", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Any, ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """The temperature that is asked for is not handed on: it is always 1."""
    given = {**options, "temperature": 1.0, "do_sample": True}
    kept = {key: value for key, value in given.items() if key in options}
    return original(ids, count, kept)  # type: ignore[no-any-return]
