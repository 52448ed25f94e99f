import textwrap

import pytest
import torch


@pytest.fixture
def write(tmp_path):
    """Write a source file below a folder of the test's own and give its path."""

    def write_file(source, name="model.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def logits_shape():
    """The shape of what a model gives for three rows of seven ids."""

    def shape_of(model):
        with torch.no_grad():
            return tuple(model(torch.zeros(3, 7, dtype=torch.long)).shape)

    return shape_of
