"""docs/findings.md: what it shows of published models can be seen without the audit."""

import re
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.zoo, pytest.mark.filterwarnings("ignore")]
PAGE = Path(__file__).parents[2] / "docs" / "findings.md"


def _blocks():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_every_block_of_the_page_shows_what_it_says():
    for package in (
        "transformers", "litgpt", "x_transformers", "fms", "torchtune", "transformer_lens",
    ):  # fmt: skip
        pytest.importorskip(package)
    code = "\n".join(
        re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    )
    with torch.random.fork_rng():
        try:
            exec(compile(code, str(PAGE), "exec"), {})
        finally:
            torch.set_grad_enabled(True)
