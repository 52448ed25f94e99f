"""What a script needs to know of a subject: how it is called and where its logits stand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.fixtures.recording.tensors import reachable_tensors
from theodolite.fixtures.serving.padding import Padding, padding_of
from theodolite.fixtures.subject.convention import each_layer, find_logits, find_scalar
from theodolite.fixtures.subject.subject import Subject
from theodolite.fixtures.subject.switches import flags_of
from theodolite.report import Check

_FILLINGS = {
    "targets": "ids",
    "positions": "torch.arange(ids.shape[1]).expand(ids.shape)",
    "row positions": "torch.arange(ids.shape[1])",
    "start": "0",
    "none": "None",
    "causal mask": "torch.ones(2 * ids.shape[1:]).bool().tril()",
    "inverted causal mask": "~torch.ones(2 * ids.shape[1:]).bool().tril()",
    "padding mask": "torch.ones_like(ids)",
}


def _filling(meaning: str) -> str:
    layers = each_layer(meaning)
    return _FILLINGS[meaning] if layers is None else f"[None] * {layers}"


_LENGTHS = (2, 3, 4, 5, 7, 9, 13)

_AMPLIFIED = 200
"""Factor on the weights of an amplified model: of its square, 4e4, on the product of queries and
keys, `theodolite.fixtures.subject.view.AMPLIFICATION`, 1e4, is a quarter."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A failed check and the subject that failed it.

    Attributes:
        subject: The subject.
        check: The failed check.
        build: The expression that makes another instance.
    """

    subject: Subject
    check: Check
    build: str

    # -- calling ---------------------------------------------------------------------------------

    @property
    def given(self) -> str:
        """What a call is given, as source: the ids and what is required beside them."""
        convention = self.subject.convention
        ids = "ids.t()" if convention.layout == "sequence" else "ids"
        parts = [ids if convention.ids_keyword is None else f"{convention.ids_keyword}={ids}"]
        parts += [f"{name}={_filling(meaning)}" for name, meaning in convention.required]
        if convention.targets is not None:
            parts.append(f"{convention.targets}=ids")
        return ", ".join(parts)

    @cached_property
    def pick(self) -> str:
        """What takes logits (B, T, V) out of what the model returns, as source behind it."""
        ids = self.subject.random_ids(2)
        output = self.subject.raw(self.subject.model, ids)
        batch, length = ids.shape
        shape = (length, batch) if self.subject.convention.layout == "sequence" else (batch, length)
        found = find_logits(output, shape)
        assert found is not None
        end = ".transpose(0, 1)" if self.subject.convention.layout == "sequence" else ""
        return place_of(output, found) + _reshaped(output, found) + end

    @cached_property
    def loss_pick(self) -> str | None:
        """What takes the loss out of what the model returns for targets; None if it has none."""
        if self.subject.targets is None:
            return None
        ids = self.subject.random_ids(2)
        output = self.subject.raw(self.subject.model, ids, {self.subject.targets: ids})
        loss = find_scalar(output)
        return None if loss is None else place_of(output, loss)

    @cached_property
    def padding(self) -> Padding | None:
        """How the subject is told which tokens are padding, or None."""
        return None if self.subject.padding is None else padding_of(self.subject)

    def mask(self, real: list[list[bool]]) -> str:
        """A padding mask as source."""
        padding = self.padding
        assert padding is not None
        rows = [[padding.real if each else padding.hidden for each in row] for row in real]
        return f"torch.tensor({rows})".replace("-inf", 'float("-inf")')

    # -- places ----------------------------------------------------------------------------------

    @cached_property
    def embedding(self) -> str | None:
        """Path of the module that embeds tokens."""
        found = self.subject.views.as_given.insides.random.embedding()
        return None if found is None else found.path

    @cached_property
    def head(self) -> str | None:
        """Path of the last linear layer that is as wide as the vocabulary."""
        rows = self.subject.embedding_rows
        found = [
            path
            for path, module in self.subject.model.named_modules()
            if isinstance(module, nn.Linear) and module.out_features == rows
        ]
        return found[-1] if found else None

    @property
    def module(self) -> str | None:
        """Path of the module where the check failed."""
        found = self.check.where.get("module")
        return str(found) if found else None

    @property
    def layer(self) -> int:
        """Number of the layer where the check failed."""
        layer: int = self.check.where.get("layer", 0)
        return layer

    # -- tokens ----------------------------------------------------------------------------------

    def lengths(self, least: int = 1) -> list[int]:
        """Lengths to try, the shortest first, up to the audit's own."""
        only = self.subject.convention.only_length
        if only is not None:
            return [only]
        least = max(least, self.subject.shortest)
        most = self.subject.length
        return sorted({n for n in (1, *_LENGTHS, most) if least <= n <= most})

    def tokens(self, length: int, *, start: int = 0) -> list[int]:
        """The smallest different tokens."""
        return [(start + i) % self.subject.vocabulary for i in range(length)]

    def mixed(self, length: int, *, seed: int = 0) -> list[int]:
        """Tokens in no order, the same every time."""
        found: list[int] = self.subject.random_ids(1, length, seed=seed)[0].tolist()
        return found

    def sequences(self, least: int = 1) -> Iterator[list[int]]:
        """Sequences to try, the smallest first."""
        for length in self.lengths(least):
            yield self.tokens(length)
            yield self.mixed(length)

    def other(self, token: int) -> int:
        """Another token: the next."""
        return (token + 1) % self.subject.vocabulary


def place_of(output: Any, wanted: Tensor) -> str:
    """Where in what a model returned a tensor stands, as source behind the call."""
    if isinstance(output, Tensor):
        return ""
    ways: list[tuple[str, Any]] = []
    if hasattr(output, "__dict__") or hasattr(output, "_fields"):
        named: Mapping[str, Any] = getattr(output, "__dict__", {})
        names = [*named, *getattr(output, "_fields", ())]
        ways += [(f".{name}", getattr(output, name, None)) for name in names if name.isidentifier()]
    if isinstance(output, Mapping):
        ways += [(f"[{name!r}]", value) for name, value in output.items()]
    elif isinstance(output, (tuple, list)):
        ways += [(f"[{index}]", value) for index, value in enumerate(output)]
    for way, value in ways:
        if isinstance(value, Tensor) and value.data_ptr() == wanted.data_ptr():
            return way
    return ""


def _reshaped(output: Any, found: Tensor) -> str:
    """What brings logits of another layout to (B, T, V), as source."""
    for tensor in reachable_tensors(output):
        if tensor.data_ptr() != found.data_ptr():
            continue
        if tensor.shape == found.shape:
            return ""
        if tensor.ndim == 2:
            return ".reshape(*ids.shape, -1)"
        if tensor.transpose(1, 2).shape == found.shape:
            return ".transpose(1, 2)"
        return ".transpose(0, 1)"
    return ""


def arrangement(scene: Scene, view: str) -> tuple[list[str], list[str], str] | None:
    """How a script brings a model into a view of the subject.

    Returns:
        Lines after the model was built, lines before each call, further arguments of each call;
        None where the subject has no such view.
    """
    fixed = any(not p.requires_grad for p in scene.subject.model.parameters())
    factor = f"{_AMPLIFIED} * " if view == "amplified" else ""
    half = scene.subject.dtype in (torch.float16, torch.bfloat16)
    learned = (
        "filter(lambda p: p.requires_grad, model.parameters())" if fixed else "model.parameters()"
    )
    sharp = [
        f"for p in {learned}:  # larger weights: fresh ones attend almost evenly",
        f"    scale, kept = ({factor}p.shape[-1] ** -0.5, 0) if p.ndim > 1 else (0.1, p.data)",
        "    p.data = kept + scale * torch.randn_like(p)",
    ]
    if half:
        sharp.insert(0, "model.float()")
    makers: dict[str, Callable[[], tuple[list[str], list[str], str]]] = {
        "as given": lambda: ([], [], ""),
        "sharpened": lambda: (sharp, [], ""),
        "amplified": lambda: (sharp, [], ""),
        "other backend": lambda: ([*sharp, *(switch(scene) or ())], [], ""),
        "train mode": lambda: (
            ["model.train()"],
            ["torch.manual_seed(0)  # the same dropout in every call"],
            "",
        ),
        "all-ones mask": lambda: (
            sharp,
            [],
            f", {scene.padding.keyword}={scene.mask([[True]])}.expand(ids.shape)"
            if scene.padding
            else "",
        ),
    }
    if view == "all-ones mask" and scene.padding is None:
        return None
    if view == "other backend" and switch(scene) is None:
        return None
    return makers[view]()


def switch(scene: Scene) -> list[str] | None:
    """Lines that switch the model to another implementation of its attention, or None."""
    model: Any = scene.subject.model
    if hasattr(model, "set_attn_implementation"):
        current = getattr(model.config, "_attn_implementation", None)
        other = "sdpa" if current == "eager" else "eager"
        return [f"model.set_attn_implementation({other!r})"]
    return switched(model, ("flash", "sdpa", "fused")) or None


def switched(model: nn.Module, words: Collection[str]) -> list[str]:
    """Lines that turn every flag with one of `words` in its name; none where it has no such flag.

    Flags of modules, and of the configuration that they keep as `config`.
    """
    modules = list(model.modules())
    holders = {id(each) for m in modules for each in (m, getattr(m, "config", m))}
    found = {
        name: not getattr(holder, name)
        for holder, name in flags_of(model, words)
        if id(holder) in holders and not isinstance(holder, dict)
    }
    return [
        f"{HOLDERS}\n    if hasattr(m, {name!r}):\n        m.{name} = {value}"
        for name, value in found.items()
    ]


HOLDERS = 'for m in [h for m in model.modules() for h in (m, getattr(m, "config", m))]:'
"""Every module, and the configuration that it keeps."""
