"""What an audit costs: forward passes, seconds, and copies of the weights in memory.

    python benchmarks/audit.py [SUBJECT ...]

Passes are counted at 256 tokens. Seconds are from the end of the imports and of loading. Copies are
the most memory that parameters beyond the subject's own took at any moment, in units of its size;
they are counted among all tensors that are alive, twice a second, whenever a module has run.
"""

from __future__ import annotations

import gc
import sys
import time

import torch
from torch import nn

import theodolite
from theodolite.fixtures.subject.subject import Subject


class Watcher:
    """The most parameter memory alive at once, sampled whenever a top-level module has run."""

    def __init__(self, subject: Subject) -> None:
        self._own = sum(p.numel() for p in subject.loaded.model.parameters())
        self._kept = {id(p) for p in subject.loaded.model.parameters()}
        self._next = 0.0
        self.most = 0.0

    def __call__(self, *_: object) -> None:
        """Look at what is alive, at most twice a second."""
        if time.perf_counter() < self._next:
            return
        gc.collect()
        alive = {
            id(p): p.numel()
            for p in gc.get_objects()
            if isinstance(p, nn.Parameter) and id(p) not in self._kept and not p.is_meta
        }
        self.most = max(self.most, sum(alive.values()) / self._own)
        self._next = time.perf_counter() + 0.5


def measure(spec: str) -> str:
    """Audit `spec` twice: timed, then watched; a line of figures."""
    report = theodolite.audit(spec)
    subject = Subject.load(spec)
    watcher = Watcher(subject)
    hook = torch.nn.modules.module.register_module_forward_hook(watcher)
    try:
        theodolite.audit(subject)
    finally:
        hook.remove()
    slowest = sorted(report.checks, key=lambda check: -check.seconds)[:3]
    return (
        f"{spec}: {report.verdict}, {report.summary['planned']} checks, "
        f"{report.passes:.0f} forward passes, {report.seconds:.1f} s, "
        f"{watcher.most:.1f} further copies of the weights at most; slowest: "
        + ", ".join(f"{check.id} {check.seconds:.1f} s" for check in slowest)
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or ["reference"]:
        print(measure(name))
