"""The claims ledger and the properties that check it.

A property is a pytest test that names its claims:

    @claim("ATT-4", check="causality.perturb", component="mask")
    def test_a_later_token_never_changes_an_earlier_logit(view): ...
"""

from __future__ import annotations

import pytest


def claim(
    *ids: str, check: str | None = None, component: str | None = None
) -> pytest.MarkDecorator:
    """Mark a test as the property of one or more claims of the ledger.

    Args:
        ids: Claim ids, e.g. "ATT-4".
        check: The name under which an audit of a subject reports this property; None for what
            concerns mathematics or the reference alone.
        component: The part that a failure accuses, one of the report's component names.
    """
    return pytest.mark.claim(*ids, check=check, component=component)
