"""Somebody's own part, overridden in their conftest.py and checked from their folder."""

import os
import re
import subprocess
import sys

import pytest

HEAD = """
import pytest
import torch
"""

RIGHT_ROPE = """
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

@pytest.fixture(params=[16, 64])
def rope_width(request):
    return request.param

@pytest.fixture
def rope():
    def rotate(x, positions):
        embedding = RotaryEmbedding(dim=x.shape[-1], cache_if_possible=False)
        return apply_rotary_emb(embedding(positions.float()), x)

    return rotate
"""

MIXED_ROPE = """
@pytest.fixture
def rope():
    def rotate(x, positions):
        width = x.shape[-1]
        angles = positions[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        half, other = x.chunk(2, dim=-1)
        return torch.cat([half * cosine - odd * sine, other * cosine + even * sine], dim=-1)

    return rotate
"""

FAST_ROPE = """
@pytest.fixture
def rope():
    def rotate(x, positions):
        width = x.shape[-1]
        angles = positions[:, None] * 10000.0 ** (-torch.arange(width // 2) / width)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cosine - right * sine, left * sine + right * cosine], dim=-1)

    return rotate
"""

RIGHT_NORM = """
@pytest.fixture(params=[torch.nn.RMSNorm, torch.nn.LayerNorm])
def norm(request, norm_width):
    return request.param(norm_width, eps=1e-5)
"""

NORM_OVER_TIME = """
@pytest.fixture
def norm():
    return lambda x: x * torch.rsqrt(x.square().mean(dim=(-2, -1), keepdim=True) + 1e-5)
"""

RIGHT_ATTENTION = """
@pytest.fixture
def attention():
    def attend(query, key, value, *, causal):
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=causal
        )

    return attend
"""

LATE_MASK = """
@pytest.fixture
def attention():
    def attend(query, key, value, *, causal):
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
        return (weights.tril() if causal else weights) @ value

    return attend
"""

UNSCALED = """
@pytest.fixture
def attention():
    def attend(query, key, value, *, causal):
        scores = query @ key.mT
        if causal:
            hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        return scores.softmax(dim=-1) @ value

    return attend
"""


def check(folder, conftest, part, *options, where=".", within="theodolite.properties"):
    """Write conftest.py into folder / where and run the properties that `part` selects there."""
    start = folder / where
    start.mkdir(parents=True, exist_ok=True)
    (start / "conftest.py").write_text(HEAD + conftest, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--pyargs", within, "-k", part]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "THEODOLITE_"))
    }
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", *options],
        cwd=start,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("part", "conftest", "options"),
    [
        pytest.param("rope", RIGHT_ROPE, ("-n", "2"), id="rotary-embedding-torch"),
        pytest.param("test_norm.py", RIGHT_NORM, (), id="norms-of-torch"),
        pytest.param("attention", RIGHT_ATTENTION, (), id="attention-of-torch"),
    ],
)
def test_a_right_part_passes(tmp_path, part, conftest, options):
    if "rotary_embedding_torch" in conftest:
        pytest.importorskip("rotary_embedding_torch")
    done = check(tmp_path, conftest, part, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 10


@pytest.mark.parametrize(
    ("part", "conftest", "said"),
    [
        pytest.param("fixed_pairs", MIXED_ROPE, "follow the same pairing", id="pairings-mixed"),
        pytest.param("own_channels_alone", NORM_OVER_TIME, "position", id="normalised-over-time"),
        pytest.param("attention", LATE_MASK, "sum to 1", id="masked-after-softmax"),
        pytest.param("attention", UNSCALED, "QKᵀ/√d", id="not-scaled"),
    ],
)
def test_a_wrong_part_fails_by_message(tmp_path, part, conftest, said):
    done = check(tmp_path, conftest, part)
    assert done.returncode == 1, done.stdout + done.stderr
    sentences = re.findall(r"PropertyFailure: (.*)", done.stdout)
    assert any(said in sentence for sentence in sentences), sentences or done.stdout


def test_a_part_counts_below_the_root_of_a_project_too(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    rope = {"where": "tests", "within": "theodolite.properties.article.test_rope"}
    done = check(tmp_path, FAST_ROPE, "test_it_is_the_formula", "-n", "2", **rope)
    assert done.returncode == 1, done.stdout + done.stderr


def test_a_part_in_the_tests_folder_counts_from_the_project_root(tmp_path):
    within = "theodolite.properties.article.test_rope"
    check(tmp_path, FAST_ROPE, "no_such_property", where="tests", within=within)
    assert check(tmp_path, "", "test_it_is_the_formula", within=within).returncode == 1
