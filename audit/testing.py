"""For people's own tests: hold a model to the claims, and fail with what is wrong.

from theodolite.testing import assert_sound

def test_my_gpt_is_sound():
    assert_sound(GPT(config))
"""

from __future__ import annotations

from typing import Any

from theodolite.report import Report
from theodolite.run import audit

__all__ = ["assert_sound"]


def assert_sound(model: Any, **how: Any) -> Report:
    """Audit a model; do nothing more if it passes.

    Args:
        model: A live module, or whatever else `theodolite.audit` takes. It is copied, not changed.
        how: As for `theodolite.audit`: ``declare``, ``select``, ``budget`` ...

    Returns:
        The report, of a model that passed.

    Raises:
        AuditFailure: If a check failed or too little could be judged: an AssertionError that tells
            each failure.
        SubjectError: If the model cannot be called.
    """
    __tracebackhide__ = True  # pytest shows the line that called it
    report = audit(model, **how)
    report.raise_for_failures()
    return report
