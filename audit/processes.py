"""Processes of Theodolite's own: started in a session apart, ended with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn


def start(module: str, *words: str, folder: Path, **streams: Any) -> subprocess.Popen[bytes]:
    """Start ``python -m module words`` with a pipe to its standard input.

    The module shall end its process when the pipe does: then none outlives this process, however
    that ends.

    Args:
        module: A module of Theodolite.
        words: Its arguments.
        folder: Where it works: one that holds no file which would hide a module.
        streams: Where its standard output and error go, as for `subprocess.Popen`.
    """
    paths = [Path(p).resolve() for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is this process's to handle
        **streams,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that `start` has started, and what it has started itself."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def end_group() -> NoReturn:
    """End this process, which `start` has started, and what it has started itself."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
