"""What courses and their pupils write: which class is the model, and where its sizes stand."""

import json
import re

import pytest

from theodolite.fixtures.errors import UsageError

from .as_audited import load
from .sources import CONFIGURED, MODEL, PARTS

LARGE = {"vocab_size": 50257, "n_embd": 1024, "block_size": 1024, "n_head": 16, "n_layer": 24}

FILES = {
    "sizes.json": json.dumps({"model": LARGE | {"bias": False}, "train": {"lr": 0.1}}),
    "config/small.toml": "[model]\nbias = true\n"
    + "".join(f"{name} = {value}\n" for name, value in LARGE.items()),
    "settings.yaml": "bias: true\n"
    + "".join(f"{name}: {value}\n" for name, value in LARGE.items()),
}


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_stands_in_a_file_beside_the_model(name, write, logits_shape):
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    write(FILES[name], name)
    loaded = load(f"{write(CONFIGURED)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert (loaded.model.head.bias is not None) == ("true" in FILES[name])


CONSTANTS = "\n".join(f"{name} = {value}" for name, value in LARGE.items()) + "\nbias = False\n"
BY_CONSTANTS = CONFIGURED.replace("(self, config)", "(self)").replace(
    "        self.config = config\n", ""
)


@pytest.mark.parametrize(
    ("imported", "prefix"),
    [
        ("from sizes_of_it import *", ""),
        (f"from sizes_of_it import {', '.join(LARGE)}, bias", ""),
        ("import sizes_of_it", "sizes_of_it."),
        ("import sizes_of_it as sizes", "sizes."),
    ],
)
def test_constants_of_another_file_are_made_small(imported, prefix, write, logits_shape):
    write(CONSTANTS, "sizes_of_it.py")
    source = BY_CONSTANTS.replace("config.", prefix)
    loaded = load(f"{write(f'{imported}{chr(10)}{source}')}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert len(loaded.model.blocks) == 3
    assert len(loaded.rebuild().blocks) == 3
    assert "n_layer was chosen as 3" in loaded.notes


def test_a_size_that_another_file_cannot_make_is_chosen(write, logits_shape):
    write("V = 3\ntext = open('nowhere.txt').read()\nvocab_size = len(set(text))\n", "letters.py")
    write(
        "from letters import vocab_size\nimport torch.nn as nn\nclass Head(nn.Linear):\n"
        "    def __init__(self, width):\n        super().__init__(width, vocab_size)\n",
        "head.py",
    )
    source = MODEL.replace("self, vocab_size, d_model", "self, d_model").replace(
        "nn.Linear(d_model, vocab_size)", "Head(d_model)"
    )
    path = write(f"from head import Head\nfrom letters import vocab_size\n{source}")
    loaded = load(f"{path}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert "vocab_size was chosen as 97" in loaded.notes


HOLDERS = {
    "object": "from dataclasses import dataclass\n@dataclass\nclass Sizes:\n"
    "    bias: bool = False\n"
    + "".join(f"    {name}: int = {value}\n" for name, value in LARGE.items())
    + "sizes = Sizes()\n",
    "class": "class sizes:\n    bias = False\n"
    + "".join(f"    {name} = {value}\n" for name, value in LARGE.items()),
    "mapping": f"sizes = {LARGE | {'bias': False}}\n",
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("beside", [True, False], ids=["another file", "the same file"])
def test_what_holds_the_sizes_of_a_file_is_made_small(holder, beside, write, logits_shape):
    source = BY_CONSTANTS.replace("config.", "sizes.")
    if holder == "mapping":
        source = re.sub(r"sizes\.(\w+)", r"sizes['\1']", source)
    if beside:
        write(HOLDERS[holder], "sizes_of_it.py")
    first = "from sizes_of_it import sizes\n" if beside else HOLDERS[holder]
    loaded = load(f"{write(first + source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert len(loaded.model.blocks) == len(loaded.rebuild().blocks) == 3
    assert "sizes.n_layer was chosen as 3" in loaded.notes


def test_sizes_that_are_given_to_one_class_and_read_by_another_agree(write, logits_shape):
    source = CONFIGURED.replace(
        "Attention(width, heads)", "Attention(config.n_embd, config.n_head)"
    )
    sizes = HOLDERS["object"].replace("sizes = Sizes()", "config = Sizes()")
    loaded = load(f"{write(sizes + source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)


HEAD = """

class Probe(nn.Module):
    def __init__(self, n_embd):
        super().__init__()
        self.embedding = nn.Embedding(2, n_embd)


class Trainer:
    model: Model = None


class Score(nn.Module):
    def __init__(self, vocab_size, model):
        super().__init__()
        self.embedding, self.model = nn.Embedding(vocab_size, 4), model
"""
OUTER = """

class ModelLMHead(nn.Module):
    def __init__(self, vocab_size=97):
        super().__init__()
        self.trunk = Model(vocab_size)

    def forward(self, ids):
        return self.trunk(ids)


class ModelClassifier(nn.Module):
    def __init__(self, vocab_size=97):
        super().__init__()
        self.trunk = Model(vocab_size)
"""


def test_the_model_among_parts_and_trainers_is_taken(write):
    source = MODEL + HEAD.partition("\n\nclass Score")[0]
    assert load(str(write(source))).name.endswith(":Model")


def test_the_language_model_among_the_uses_of_a_trunk_is_taken(write):
    assert load(str(write(MODEL + OUTER))).name.endswith(":ModelLMHead")


def test_a_module_that_is_given_the_model_is_no_smaller_than_it(write):
    with pytest.raises(UsageError, match="could mean any of Model, Twin"):
        load(str(write(MODEL + MODEL.replace(PARTS, "").replace("class Model", "class Twin"))))
    assert load(str(write(MODEL + OUTER + HEAD))).name.endswith(":ModelLMHead")


def test_a_class_on_the_base_of_a_library_is_a_module(write):
    pytest.importorskip("transformers")
    source = MODEL.replace("class Model(nn.Module)", "class Model(PreTrainedModel)").replace(
        "super().__init__()\n        self.embedding",
        "super().__init__(PretrainedConfig())\n        self.embedding",
    )
    path = write(f"from transformers import PretrainedConfig, PreTrainedModel\n{source}")
    assert load(str(path)).name.endswith(":Model")


def test_a_module_that_is_called_like_its_package(write, logits_shape):
    write("", "net/__init__.py")
    write(PARTS, "net/parts.py")
    path = write(
        f"import torch.nn as nn\nfrom .parts import Block\n{MODEL.replace(PARTS, '')}", "net/net.py"
    )
    assert logits_shape(load(f"{path}:Model").model) == (3, 7, 97)


def test_a_name_that_is_only_asked_for_by_its_text_is_there(write, logits_shape):
    write("", "net/__init__.py")
    source = MODEL.replace("nn.Linear(d_model", "getattr(net.model, 'He' + 'ad')(d_model")
    head = "\n\nclass Head(nn.Linear):\n    pass\n\n\nModel(11).train_it()\n"
    path = write(f"import net.model\n{source}{head}", "net/model.py")
    assert logits_shape(load(f"{path}:Model").model) == (3, 7, 97)


def test_a_field_that_nothing_reads_and_one_that_is_left_out_need_no_value(write, logits_shape):
    config = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Adapter:\n    scaling: object\n"
        "@dataclass\nclass Config:\n    corpus: object\n    bias: bool\n"
        + "".join(f"    {name}: int\n" for name in LARGE)
        + "    adapter: Adapter | None = None\n"
    )
    source = CONFIGURED.replace("(self, config)", "(self, config: Config)")
    loaded = load(f"{write(config + source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert loaded.model.config.adapter is None
    assert loaded.model.config.corpus is None


def test_a_rank_beside_a_number_of_processes_is_a_process(write):
    source = MODEL.replace("vocab_size, d_model", "vocab_size, world_size, rank, d_model")
    notes = load(f"{write(source)}:Model").notes
    assert {"world_size was chosen as 1", "rank was chosen as 0"} <= set(notes)


@pytest.mark.parametrize("read", ["config.places", 'config["places"]'])
def test_a_field_that_is_compared_to_words_is_given_the_first(read, write, logits_shape):
    source = CONFIGURED.replace(
        "        self.position = nn.Embedding(config.block_size, config.n_embd)\n",
        f"        if {read} not in ('learned', 'fixed'):\n            raise ValueError('places')\n"
        "        self.position = nn.Embedding(config.block_size, config.n_embd)\n",
    )
    assert read in source
    loaded = load(f"{write(source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert "config.places was chosen as 'learned'" in loaded.notes
