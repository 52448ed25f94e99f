"""Comparisons of small models."""

import sys
from pathlib import Path

import pytest
import torch

import theodolite

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def compared():
    """Compare two classes, each pair once."""
    known = {}

    def compare(a, b, **how):
        key = (a, b, *sorted(how.items()))
        if key not in known:
            torch.manual_seed(1)
            known[key] = theodolite.compare(a, b, **how)
        return known[key]

    return compare
