"""How much memory an audit may use.

Eight GiB, and sixteen times the weights; never more than three quarters of what this machine, or
the control group that the process runs in, has free when the audit begins (its share of that, where
audits run side by side). The weights stand in the subject as given and sharpened, in copies in
float32 and float64 (twice as much), with gradients and Adam's two moments: twelve times, and four
for what is built and thrown away. Eight GiB hold the logits of 1024 tokens over 300,000 ids in
float64 three times. Until the subject is loaded, and its weights are known, the machine is the only
bound.

Two things keep it. The worker asks the system for no more (RLIMIT_DATA, on Linux without a GPU
only: drivers reserve address space beyond measure): what asks for much at once gets an exception,
and the audit goes on. The supervisor reads the worker's resident memory twenty times a second and
ends it when it has more. Memory of processes that the subject starts is not counted.
"""

from __future__ import annotations

import os
from pathlib import Path

from theodolite.fixtures.source.free_memory import give_back

GIB = 2**30
_BASE = 8 * GIB
_WEIGHTS = 16
_SHARE = 0.75
_LARGE = 2**25
"""Bytes of weights from which on it pays to tidy up after each check: it takes milliseconds."""


def allowed(limit: float | None, weights: int | None, free: int | None) -> int | None:
    """Bytes that an audit may use.

    Args:
        limit: What the user allows, in GiB; None to derive it.
        weights: Bytes of the subject's weights; None before it is loaded.
        free: Bytes that the machine has free; None where that is not known.

    Returns:
        The bytes, or None where nothing bounds them.
    """
    if limit is not None:
        return int(limit * GIB)
    most = None if free is None else int(_SHARE * free)
    if weights is None:
        return most
    needed = _BASE + _WEIGHTS * weights
    return needed if most is None else min(needed, most)


def free_memory(beside: int = 0) -> int | None:
    """Bytes that this machine, and the process's control group, have free for one of its audits.

    Args:
        beside: Audits that run beside it and may use as much.

    Returns:
        The bytes, or None where they are not known.
    """
    known = [
        bytes_ // (1 + beside) for bytes_ in (_of_machine(), _of_group()) if bytes_ is not None
    ]
    return min(known, default=None)


def resident(process: int) -> int | None:
    """Bytes of memory that a process holds; None where that cannot be read."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _of_machine() -> int | None:
    return _field(Path("/proc/meminfo"), "MemAvailable:")


def _of_group() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        most = int((folder / "memory.max").read_text(encoding="ascii"))
        used = int((folder / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return max(most - used, 0)


def tidy_up(weights: int) -> None:
    """Give memory that a check has used back to the system, where the weights are large."""
    if weights >= _LARGE:
        give_back()


def restrict(most: int) -> None:
    """Let this process ask for no more than `most` bytes beside what it has, where that works."""
    import torch

    data = _field(Path("/proc/self/status"), "VmData:")
    if data is None or torch.cuda.is_available():
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = data + most
    resource.setrlimit(
        resource.RLIMIT_DATA, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def _field(file: Path, name: str) -> int | None:
    """A field of a file of /proc that is given in kB, in bytes."""
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return None
