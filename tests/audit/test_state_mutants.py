"""Checks of losses, parts and kept state are failed by mutants, and the right part is named."""

import pytest
from catching import catches, pairs

CAUGHT_BY = {
    "modules.executed": ["a-frozen-part-never-called", "a-parameter-that-nobody-uses"],
    "state.used": ["decoding-raises-the-base"],
    "tying.kept": ["tie-broken-by-a-cast"],
    "loss.padding": ["loss-over-the-whole-mask"],
}


@pytest.mark.parametrize(("check", "name"), pairs(CAUGHT_BY))
def test_a_mutant_fails_the_check(check, name):
    catches(check, name)
