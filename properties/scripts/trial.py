"""Running a script in this process: does it show the fault?"""

from __future__ import annotations

import contextlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.source.containment import contained
from theodolite.fixtures.source.import_paths import surroundings
from theodolite.fixtures.subject.subject import Subject

_NAME = "<reproduction>"

_FAR = 10
"""A measurement so many times its bound is no matter of where exactly the bound stands."""


@dataclass(frozen=True)
class Outcome:
    """What a script did.

    Attributes:
        shown: Whether its own assertion failed.
        said: The assertion's text, or the exception that stopped it; "" if it ended well.
        clear: Whether what it measured is far past its bound.
    """

    shown: bool
    said: str = ""
    clear: bool = False


def attempt(subject: Subject, text: str, scope: dict[str, Any] | None = None) -> Outcome:
    """Execute `text` under the audit's limits.

    Args:
        subject: Whose limits to use.
        text: A script, or what follows a beginning that has been executed already.
        scope: The names that the beginning left; None to begin from nothing.
    """
    scope = {"__name__": "__main__"} if scope is None else scope
    threads, gradients = torch.get_num_threads(), torch.is_grad_enabled()
    try:
        with subject.limits(), contained():
            exec(compile(text, _NAME, "exec"), scope)
    except AssertionError as error:
        # one that the subject raised is a refusal of the subject's, not the script's verdict
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(last.filename == _NAME, str(error), clear=_clear(scope))
    except SystemExit as error:
        return Outcome(False, f"it ended with status {error.code}")
    except SubjectError as error:
        return Outcome(False, str(error))
    except Exception as error:
        return Outcome(False, f"{type(error).__name__}: {' '.join(str(error).split())}")
    finally:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(gradients)
    return Outcome(False)


@contextlib.contextmanager
def as_its_own() -> Any:
    """Leave the paths and modules that scripts bring in out of this process afterwards."""
    paths = list(sys.path)
    with surroundings(Path.cwd() / "_"):
        before = set(sys.modules)
        try:
            yield
        finally:
            for name in set(sys.modules) - before:
                if not _is_installed(name):
                    del sys.modules[name]
    sys.path[:] = paths


def _is_installed(name: str) -> bool:
    file = getattr(sys.modules[name], "__file__", None) or ""
    return not file or "site-packages" in file or "dist-packages" in file or "/lib/python" in file


def _clear(scope: dict[str, Any]) -> bool:
    measured, bound = scope.get("measured"), scope.get("bound")
    if not isinstance(measured, int | float) or not isinstance(bound, int | float):
        return True
    return not measured <= _FAR * bound
