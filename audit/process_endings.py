"""How a worker process ended before its work was done, in words."""

from __future__ import annotations

import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import theodolite
from theodolite.fixtures.judging.wording import clean
from theodolite.fixtures.source.limits import GRACE
from theodolite.job import LAST_WORDS, TRACES

_FRAME = re.compile(
    r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE
)
_MEANINGS = {
    "SIGSEGV": "a segmentation fault: compiled code reached for memory that is not its own",
    "SIGABRT": "an abort of compiled code",
    "SIGBUS": "memory that could not be reached",
    "SIGFPE": "an arithmetic fault of compiled code",
    "SIGILL": "an instruction that this processor does not know",
    "SIGKILL": "by whom is not known: often the system, when memory runs short",
}


@dataclass(frozen=True)
class Ending:
    """Why a worker ended.

    Attributes:
        cause: What endings of one cause have in common.
        says: What happened, as a clause that goes on "the audit's process ...".
    """

    cause: str
    says: str


def of_memory(held: int, most: int) -> Ending:
    """It held more memory than the audit may use."""
    gib = 2**30
    return Ending(
        "memory",
        f"held {held / gib:.1f} GiB of memory, where an audit of this subject may use "
        f"{most / gib:.1f}, and was ended; raise that with --memory-limit GIB if it is meant",
    )


def ending_of(status: int, folder: Path, stopped: str | None) -> Ending:
    """How a process that nobody ended did.

    Args:
        status: Its exit status, or the number of the signal that ended it, negative.
        folder: Where it left its traces.
        stopped: What ended its run of the properties, if anything did.
    """
    traces = _read(folder / TRACES)
    where = _where(traces)
    if traces.startswith("Timeout ("):
        return Ending(
            "time",
            f"did not return in its time, could not be interrupted for {GRACE:g} s more, and was "
            f"ended{where}; if it is only slow, raise --time-limit SECONDS",
        )
    if stopped is not None:
        return Ending(f"stopped {stopped}", f"was interrupted from inside by {stopped}")
    if status < 0:
        name = _signal(-status)
        meaning = f" ({_MEANINGS[name]})" if name in _MEANINGS else ""
        last = _last_words(folder) if name == "SIGABRT" else ""
        return Ending(name, f"was ended by {name}{meaning}{where}{last}")
    last = _last_words(folder) if status else ""
    return Ending(f"status {status}", f"ended itself with exit status {status}{where}{last}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _where(traces: str) -> str:
    """The innermost frame of the subject's own code, as the end of a clause."""
    own = (str(Path(theodolite.__file__).parent), sys.base_prefix, sys.prefix)
    for frame in _FRAME.finditer(traces):
        file = frame["file"]
        if not file.startswith(own) and not file.startswith("<"):
            return clean(f", in {frame['function']} ({Path(file).name}, line {frame['line']})")
    return ""


def _last_words(folder: Path) -> str:
    lines = [line for line in _read(folder / LAST_WORDS).splitlines() if line.strip()]
    return f"; its last words were: {clean(lines[-1], 200)}" if lines else ""


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
