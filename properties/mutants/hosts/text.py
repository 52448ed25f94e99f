"""Hosts whose text is changed: models as people write them, and a library's own source.

In the folder `texts`, beside each model, stands what its faults change: see `mutants.changes`.
"""

from __future__ import annotations

import atexit
import importlib
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.mutants.changes import FOLDER, Change, read_changes
from theodolite.properties.mutants.patching import Patch

if TYPE_CHECKING:
    from theodolite.properties.mutants.registry import Mutant

_THOROUGH = 600.0
"""Seconds that a call may take where a model is compiled."""


@dataclass(frozen=True)
class TextHost:
    """A model as a text, whose faults are other texts.

    Attributes:
        name: Its name on the command line, and that of its files.
        model: What is audited of the file.
        declarations: What is declared of it.
    """

    name: str
    model: str = "Model"
    declarations: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def changes(self) -> Mapping[str, Change]:
        """Fault's name → what it changes."""
        return read_changes(FOLDER / f"{self.name}.faults")

    def text(self, **settings: Any) -> str:
        """The file without a fault."""
        del settings
        return (FOLDER / f"{self.name}.py.txt").read_text(encoding="utf-8")

    def fits(self, mutant: Mutant) -> bool:
        """Whether the fault has a change of this text."""
        return mutant.name in self.changes

    def put(self, mutant: Mutant, patch: Patch) -> None:
        """Nothing: the subject has the fault in its text."""

    def obstacle(self, name: str) -> str | None:
        """Why the fault cannot be put into this text, in a sentence; None if it can."""
        change = self.changes[name]
        try:
            change.applied_to(self.text(**change.settings))
        except LookupError as error:
            return f"{name} is left out of {self.name}, whose text is another one: {error}"
        return None

    def options(self, name: str | None = None) -> dict[str, Any]:
        """What `theodolite.audit` is called with for a fault's sake: settings and declare."""
        change = Change(()) if name is None else self.changes[name]
        return {
            "settings": dict(change.settings),
            "declare": {**self.declarations, **change.declare},
        }

    def write(self, folder: Path, name: str | None = None) -> str:
        """Write the model, with the fault of that name, and name it as `theodolite.audit` does.

        Raises:
            LookupError: If the text is not the one that the fault was written for.
        """
        change = Change(()) if name is None else self.changes[name]
        file = folder / "host.py"
        file.write_text(change.applied_to(self.text(**change.settings)), encoding="utf-8")
        return f"{file}:{change.model or self.model}"

    def subject(self, mutant: Mutant | None = None) -> Subject:
        """The model, with the fault, built afresh.

        Raises:
            LookupError: If the text is not the one that the fault was written for.
            SubjectError: If the fault keeps it from being built or called.
        """
        folder = Path(tempfile.mkdtemp(prefix="theodolite-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # it may be built again
        name = None if mutant is None else mutant.name
        options = self.options(name)
        return Subject.load(
            self.write(folder, name),
            settings=options["settings"],
            declarations=options["declare"],
            seconds=_THOROUGH if mutant is not None and mutant.budget == "thorough" else 60.0,
        )


_BUILD = """

{base}._can_set_attn_implementation_cached_value = True


def small():
    config = {config}({fields})
    config._attn_implementation = {attention!r}
    config._experts_implementation = "eager"
    return {model}(config)
"""
"""The library looks for a class's way to attend among imported modules, and a file is none."""

SIZES = {
    "vocab_size": 61,
    "hidden_size": 48,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 48,
}
"""Small and awkward: groups of three heads, on two key heads."""


@dataclass(frozen=True)
class LibraryText(TextHost):
    """A family of transformers, its own source made to stand alone; settings are its configuration.

    Attributes:
        family: The library's name of it.
        fields: Of its configuration, beside `SIZES`.
        configured: Whether all that the configuration says is declared.
    """

    model: str = "small"
    family: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    configured: bool = False

    def text(self, attention: str = "eager", **settings: Any) -> str:
        """The library's file, and `small`, a model of it."""
        source = _standing_alone(self.family)
        causal = importlib.import_module("transformers.models.auto.modeling_auto")
        fields = {**SIZES, **self.fields, **settings}
        return source + _BUILD.format(
            base=re.findall(r"class (\w+)\(PreTrainedModel\)", source)[0],
            config=type(self.config()).__name__,
            model=causal.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[self.family],
            fields=", ".join(f"{key}={value!r}" for key, value in fields.items()),
            attention=attention,
        )

    def config(self) -> Any:
        """A small configuration of the family."""
        auto = importlib.import_module("transformers.models.auto.configuration_auto")
        return auto.CONFIG_MAPPING[self.family](**{**SIZES, **self.fields})

    def options(self, name: str | None = None) -> dict[str, Any]:
        """As of any text; settings are in the text already."""
        from theodolite.fixtures.loading.huggingface.claims import declarations_of

        told = declarations_of(self.config())[0] if self.configured else {}
        declare = super().options(name)["declare"]
        return {"settings": {}, "declare": {**told, **declare}}


@cache
def _standing_alone(family: str) -> str:
    """The source of a family of transformers, with its imports made absolute."""
    package = f"transformers.models.{family}"
    place = importlib.import_module(package).__path__[0]
    source = (Path(place) / f"modeling_{family}.py").read_text(encoding="utf-8")
    source = re.sub(r"from \.\.\.(\w*)", r"from transformers.\1", source)
    source = source.replace("from transformers. import", "from transformers import")
    source = re.sub(r"from \.\.(\w+)", r"from transformers.models.\1", source)
    source = re.sub(r"from \.(\w+)", rf"from {package}.\1", source)
    return re.sub(r"(?m)^ *@(auto_docstring|use_kernel\w*\(.*\))\n", "", source)


BY_HAND, SERVING = TextHost("by_hand"), TextHost("serving")
SPARSE, TRAINING = TextHost("sparse"), TextHost("training")
WRITTEN = (BY_HAND, SERVING, SPARSE, TRAINING)

LIBRARY_TEXTS = (
    LibraryText("llama-text", family="llama"),
    LibraryText("gpt2-text", family="gpt2"),
    LibraryText("mistral-text", family="mistral", fields={"sliding_window": 8}, configured=True),
    LibraryText(
        "mixtral-text",
        family="mixtral",
        fields={"num_local_experts": 4, "num_experts_per_tok": 2},
        configured=True,
    ),
)
