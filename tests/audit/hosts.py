"""Models of a library as plain source, to be changed in one place and audited."""

import importlib
import importlib.util
import re
from dataclasses import dataclass, field
from pathlib import Path

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

_BUILD = """

def small():
    config = {config}({fields})
    config._attn_implementation = {attention!r}
    config._experts_implementation = "eager"
    return {model}(config)
"""


def huggingface_config(model_type, **fields):
    """A small configuration of a family."""
    auto = importlib.import_module("transformers.models.auto.configuration_auto")
    return auto.CONFIG_MAPPING[model_type](**{**SIZES, **fields})


def huggingface_source(model_type, *, attention="eager", **fields):
    """The library's own source of a family, made to stand alone, with `small`, a model of it.

    Args:
        model_type: The library's name of the family.
        attention: How it is to attend.
        fields: Of its configuration, beside `SIZES`.
    """
    package = f"transformers.models.{model_type}"
    place = importlib.util.find_spec(package).submodule_search_locations[0]
    source = (Path(place) / f"modeling_{model_type}.py").read_text(encoding="utf-8")
    source = re.sub(r"from \.\.\.(\w*)", r"from transformers.\1", source)
    source = source.replace("from transformers. import", "from transformers import")
    source = re.sub(r"from \.\.(\w+)", r"from transformers.models.\1", source)
    source = re.sub(r"from \.(\w+)", rf"from {package}.\1", source)
    source = re.sub(r"(?m)^ *@(auto_docstring|use_kernel\w*\(.*\))\n", "", source)
    causal = importlib.import_module("transformers.models.auto.modeling_auto")
    return source + _BUILD.format(
        config=type(huggingface_config(model_type, **fields)).__name__,
        model=causal.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type],
        fields=", ".join(f"{k}={v!r}" for k, v in {**SIZES, **fields}.items()),
        attention=attention,
    )


@dataclass(frozen=True)
class Fault:
    """What is replaced by what in one host, and who is to be accused of what.

    Attributes:
        id: The reported fault, or words.
        component: The component that the diagnosis is to name first.
        cause: The cause that one failure is to name, or None.
        changes: (old, new) pairs.
        settings: Keyword arguments for building the model, or fields of its configuration.
        declare: What is declared of it.
    """

    id: str
    component: str
    cause: str | None
    changes: tuple
    settings: dict = field(default_factory=dict)
    declare: dict = field(default_factory=dict)

    def applied_to(self, source):
        """`source` with the fault in it."""
        return changed(source, self.changes, self.id)


def changed(source, changes, fault):
    """`source` with `changes`, (old, new) pairs, of which each old stands in it just once."""
    for old, new in changes:
        assert source.count(old) == 1, f"{fault}: {old!r} occurs {source.count(old)} times"
        source = source.replace(old, new)
    return source


def written(source, folder, name, *, file="host.py"):
    """Write `source` to `file` in `folder`, and name what `name` stands for in it as a subject."""
    path = folder / file
    path.write_text(source, encoding="utf-8")
    return f"{path}:{name}"
