"""What arguments mean by the words of their names, and what is built for them."""

import pytest

from theodolite.fixtures.loading.name_words import guess

from .as_audited import load
from .sources import CONFIGURED, MODEL, PARTS


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("attention_n_heads", "heads"),
        ("embeddings_size", "width"),
        ("maxSequenceLength", "context"),
        ("positional_encoding_max_pos", "context"),
        ("mha_dropout", "dropout"),
        ("n_decoders", "layers"),
        ("feed_forward_scaling", "ff_factor"),
        ("masking_minus_inf", "hidden_score"),
        ("tokenizer_vocab_len", "vocabulary"),
        ("vocab_size_dec", "vocabulary"),
        ("embedded_dim", "width"),
        ("use_lora", "flag"),
        ("is_causal", "wanted"),
        ("use_rope", "wanted"),
        ("n_dense_layers", None),
        ("sliding_window", None),
        ("warmup_steps", None),
        ("tokenizer", None),
    ],
)
def test_a_name_means_what_its_words_say(name, means):
    assert guess(name) == means


def test_required_arguments_are_read_by_their_words(write, logits_shape):
    source = MODEL.replace(
        "vocab_size, d_model=32, n_head=4, n_layer=2",
        "vocab_size, model_dims, attention_n_heads, n_decoders, out_dropout",
    )
    for old, new in (
        ("d_model", "model_dims"),
        ("n_head", "attention_n_heads"),
        ("n_layer", "n_decoders"),
    ):
        source = source.replace(f", {old})", f", {new})").replace(f"({old},", f"({new},")
    loaded = load(f"{write(source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert "out_dropout was chosen as 0.0" in loaded.notes


def test_configurations_inside_configurations_are_read_through(write, logits_shape):
    source = CONFIGURED.replace("config.n_", "config.MODEL.N_").replace(
        "config.bias", "config['output']['bias']"
    )
    loaded = load(f"{write(source.replace('self.config = config', ''))}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert len(loaded.model.blocks) == 3


def test_the_key_of_a_table_is_that_of_its_smallest_entry(write):
    table = "SIZES = {'big': {'layers': 40, 'width': 64}, 'tiny': {'layers': 2, 'width': 16}}\n"
    source = (
        PARTS
        + table
        + (
            "class Model(nn.Module):\n"
            "    def __init__(self, flavour):\n"
            "        super().__init__()\n"
            "        size = SIZES[flavour]\n"
            "        self.embedding = nn.Embedding(11, size['width'])\n"
            "        blocks = [Block(size['width'], 2) for _ in range(size['layers'])]\n"
            "        self.blocks = nn.Sequential(*blocks)\n"
            "        self.head = nn.Linear(size['width'], 11)\n"
            "    def forward(self, ids):\n"
            "        return self.head(self.blocks(self.embedding(ids)))\n"
        )
    )
    loaded = load(f"{write(source)}:Model")
    assert len(loaded.model.blocks) == 2
    assert "flavour was chosen as 'tiny'" in loaded.notes


@pytest.mark.parametrize("argument", ["model", "trunk: Model"])
def test_an_argument_that_is_a_part_of_the_model_is_built_likewise(argument, write, logits_shape):
    name = argument.partition(":")[0]
    source = MODEL + (
        "\nclass Whole(nn.Module):\n"
        f"    def __init__(self, {argument}):\n"
        "        super().__init__()\n"
        f"        self.inner = {name}\n"
        "    def forward(self, ids):\n"
        "        return self.inner(ids)\n"
    )
    loaded = load(f"{write(source)}:Whole")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert f"{name}.vocab_size was chosen as 97" in loaded.notes


def test_what_asks_for_cuda_is_built_where_there_is_none(write, logits_shape):
    source = MODEL.replace(
        "self.head = ", "self.table = torch.zeros(3, device='cuda').cuda()\n        self.head = "
    )
    assert logits_shape(load(f"{write(source)}:Model").model) == (3, 7, 97)
