"""Every model of the zoo: how it is built, what is declared of it, what the audit rightly finds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import torch
from animals import hugging_face
from animals.findings import FINDINGS

import theodolite

_MODULES = {
    "hand-written: attention": "odd_attention",
    "hand-written: positions": "odd_positions",
    "hand-written: blocks": "odd_blocks",
    "hand-written: whole": "odd_whole",
    "torch.nn": "torch_models",
    "llms-from-scratch": "llms_from_scratch_models",
    "litgpt": "litgpt_models",
    "x-transformers": "x_transformers_models",
    "torchtune": "torchtune_models",
    "ibm-fms": "ibm_fms_models",
    "transformer-lens": "transformer_lens_models",
    "ai2-olmo": "ai2_olmo_models",
}
_IMPORTED_AS = {"ibm-fms": "fms", "ai2-olmo": "olmo"}


@dataclass(frozen=True)
class Entry:
    """One model: `make` gives what `theodolite.audit` takes."""

    package: str
    name: str
    make: Callable[[], Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    declare: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs(self) -> str:
        """The package to import, "torch" where there is no other."""
        if self.package.startswith("hand"):
            return "torch"
        return _IMPORTED_AS.get(self.package, self.package.replace("-", "_"))

    @property
    def findings(self) -> Mapping[str, str]:
        return FINDINGS.get((self.package, self.name), {})

    def audit(self) -> theodolite.Report:
        torch.manual_seed(0)
        return theodolite.audit(
            self.make(),
            settings=self.settings,
            declare=self.declare,
            expected_failures=self.findings,
        )

    def __str__(self) -> str:
        return f"{self.package}: {self.name}"


def families() -> list[Entry]:
    """Hugging Face, as each attends by default, then eagerly where both are offered."""
    found = []
    for name in sorted({*hugging_face.SDPA_TOO, *hugging_face.ONE_WAY}):
        settings = hugging_face.SETTINGS.get(name, {})
        found.append(Entry("transformers", name, partial(str, f"hf:{name}"), settings))
    for name in hugging_face.SDPA_TOO:
        settings = {**hugging_face.SETTINGS.get(name, {}), "attn_implementation": "eager"}
        found.append(Entry("transformers", f"{name}, eager", partial(str, f"hf:{name}"), settings))
    for name, (family, settings) in hugging_face.VARIANTS.items():
        found.append(Entry("transformers", name, partial(str, f"hf:{family}"), settings))
    return found


def others() -> list[Entry]:
    """Models built by code: fresh ones, so that their first loss is judged as well."""
    found = []
    for package, place in _MODULES.items():
        module = import_module(f"animals.{place}")
        for name, make in module.MODELS.items():
            declared = {"fresh": True, **module.DECLARED.get(name, {})}
            found.append(Entry(package, name, make, declare=declared))
    return found
