"""Packages that are not installed: in the way only where something is computed with them."""

import pytest
import torch

from theodolite import audit
from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.rounding import attention_error
from theodolite.fixtures.source.missing_packages import flash_attention

from .as_audited import load
from .sources import MODEL

NOBODY = "a_library_that_nobody_has"


@pytest.mark.parametrize(
    "source",
    [
        MODEL.replace(
            "def forward(self, ids):", 'def forward(self, ids: Float[nn, "b t"] | None):'
        ),
        MODEL.replace("    def forward(self, ids):", "    @Float\n    def forward(self, ids):"),
        MODEL.replace(
            "    def forward(self, ids):", "    @Float(by=1)\n    def forward(self, ids):"
        ),
        MODEL.replace("class Model(nn.Module)", "class Model(nn.Module, Float)"),
        MODEL + "\nassert not isinstance(3, Float)\n",
    ],
    ids=["annotation", "decorator", "decorator with options", "base class", "isinstance"],
)
def test_names_of_an_absent_package_are_in_nobodys_way(source, write, logits_shape):
    path = write(f"from {NOBODY}.typing import Float\n{source}")
    assert logits_shape(load(f"{path}:Model").model) == (3, 7, 97)


def test_an_absent_module_class_is_an_ordinary_module(write, logits_shape):
    source = MODEL.replace("class Model(nn.Module)", "class Model(lightning.LightningModule)")
    path = write(f"import {NOBODY} as lightning\n{source}")
    assert logits_shape(load(f"{path}:Model").model) == (3, 7, 97)


def test_all_absent_packages_are_named_at_once_with_the_command(write):
    source = MODEL.replace("self.head = ", "self.extra = layer(width(3))\n        self.head = ")
    path = write(f"from {NOBODY} import layer\nfrom another_one import width\n{source}")
    said = f"the modules another_one, {NOBODY} are not installed: pip install another_one {NOBODY}"
    with pytest.raises(SubjectError, match=said):
        load(f"{path}:Model")


def test_an_absent_package_that_only_the_forward_needs_is_named(write):
    source = MODEL.replace("return self.head", "return layer(self.head").replace(
        "ids)))", "ids))))"
    )
    path = write(f"from {NOBODY} import layer\n{source}")
    with pytest.raises(SubjectError, match=f"cannot be called: the module {NOBODY} is not"):
        load(f"{path}:Model")


def test_a_logger_that_is_not_installed_says_nothing(write, logits_shape):
    source = MODEL.replace("super()", 'logger.info("building")\n        super()', 3)
    path = write(f"from loguru import logger\n{source}")
    assert logits_shape(load(f"{path}:Model").model) == (3, 7, 97)


def test_a_tokenizer_that_cannot_be_had_is_stood_in_for(write, logits_shape):
    asked = f"from {NOBODY} import FastTokenizer\ntokenizer = FastTokenizer('gpt')\n"
    source = (
        MODEL.replace("self, vocab_size, d_model", "self, d_model")
        .replace("nn.Embedding(vocab_size", "nn.Embedding(len(tokenizer)")
        .replace("nn.Linear(d_model, vocab_size)", "nn.Linear(d_model, tokenizer.vocab_size)")
    )
    loaded = load(f"{write(asked + source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert "tokenizer could not be had here: a tokenizer of 97 ids stands for it" in loaded.notes


def test_layers_that_are_split_over_processes_are_whole_on_one(write, logits_shape):
    source = (
        "from fairscale.nn.model_parallel.layers import ParallelEmbedding, ColumnParallelLinear\n"
        "import fairscale.nn.model_parallel.initialize as groups\n"
        + MODEL.replace(
            "nn.Embedding(vocab_size, d_model)",
            "ParallelEmbedding(vocab_size, d_model // groups.get_model_parallel_world_size(), "
            "init_method=lambda x: x)",
        ).replace(
            "nn.Linear(d_model, vocab_size)",
            "ColumnParallelLinear(d_model, vocab_size, bias=False, init_method=lambda x: x)",
        )
    )
    loaded = load(f"{write(source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert loaded.model.head.bias is None


def test_a_kernel_for_cuda_alone_is_stood_in_for(write):
    source = MODEL.replace(
        "        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
        "        q, k, v = (part.transpose(1, 2) for part in (q, k, v))\n"
        "        y = flash_attn_func(q, k, v, causal=True).transpose(1, 2)\n",
    )
    path = write(f"from flash_attn import flash_attn_func\n{source}")
    report = audit(f"{path}:Model", select=["causality", "inside.scale"])
    said = "flash_attn is not installed: torch's attention stands for flash_attn_func"
    assert said in report.notes
    assert report.summary["failed"] == 0


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [(-1, -1), (2, 1), (0, 0)])
def test_the_kernel_is_what_its_package_documents(causal, window):
    """Query i sees keys from i + S - T - left to i + S - T + right (flash-attn's README)."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, *shape, 8).double() for shape in ((3, 4), (5, 2), (5, 2)))
    heads = (q.transpose(1, 2), *(x.transpose(1, 2).repeat_interleave(2, 1) for x in (k, v)))
    bound = 2 * attention_error(*heads)  # both ways round, and 0.3 is less than 1/√8
    found = flash_attention(q, k, v, causal=causal, window_size=window, softmax_scale=0.3)
    left, right = window
    for i in range(3):
        at = i + 5 - 3
        last = at if causal else (at + right if right >= 0 else 4)
        keys = slice(max(at - left, 0) if left >= 0 else 0, min(last, 4) + 1)
        for head in range(4):
            scores = q[:, i, head, None] @ k[:, keys, head // 2].transpose(1, 2) * 0.3
            wanted = (scores.softmax(-1) @ v[:, keys, head // 2])[:, 0]
            assert float((found[:, i, head] - wanted).abs().max()) <= bound
