"""Building: values by meaning, configurations of every kind, factories and instances."""

import pytest
import torch
from torch import nn

from theodolite.fixtures.errors import SubjectError, UsageError

from .as_audited import load
from .sources import CONFIGURED, MODEL, PARTS

SIZES = "vocab_size, n_embd, block_size, n_head, n_layer, bias"
LARGE = {"vocab_size": 50257, "n_embd": 1024, "block_size": 1024, "n_head": 16, "n_layer": 24}
FIELDS = "\n".join(f"    {name}: int = {value}" for name, value in LARGE.items())
ASSIGNED = "\n".join(f"    {name} = {value}" for name, value in LARGE.items())
SET = "\n".join(f"        self.{name} = {value}" for name, value in LARGE.items())
ENTRIES = ", ".join(f'"{name}": {value}' for name, value in LARGE.items())

CONFIGS = {
    "dataclass": f"from dataclasses import dataclass\n@dataclass\nclass Config:\n{FIELDS}\n"
    "    bias: bool = False\n",
    "dataclass without annotations": "from dataclasses import dataclass\n@dataclass\n"
    f"class Config:\n    bias: bool = False\n{ASSIGNED}\n",
    "dataclass with required fields": "from dataclasses import dataclass\n@dataclass\n"
    "class Config:\n    vocab_size: int\n    n_embd: int\n    block_size: int\n    n_head: int\n"
    "    n_layer: int\n    bias: bool\n",
    "named tuple": f"from typing import NamedTuple\nclass Config(NamedTuple):\n{FIELDS}\n"
    "    bias: bool = False\n",
    "class body": f"class Config:\n{ASSIGNED}\n    bias = False\n",
    "constructor without parameters": "class Config:\n    def __init__(self):\n"
    f"{SET}\n        self.bias = False\n",
    "constructor with parameters": "class Config:\n    def __init__(self, vocab_size=50257, "
    "n_embd=1024, block_size=1024, n_head=16, n_layer=24, bias=False):\n"
    "        self.__dict__.update(locals())\n",
    "constructor with keywords": "class Config:\n    bias = False\n"
    "    def __init__(self, vocab_size, block_size, **kwargs):\n"
    "        self.vocab_size, self.block_size = vocab_size, block_size\n"
    "        for name, value in kwargs.items():\n            setattr(self, name, value)\n",
    "keywords with defaults": "class Config:\n    def __init__(self, **kwargs):\n"
    + "".join(
        f"        self.{name} = kwargs.get({name!r}, {value})\n" for name, value in LARGE.items()
    )
    + "        self.bias = kwargs.pop('bias', False)\n",
    "namespace": "from types import SimpleNamespace\n"
    f"config = SimpleNamespace(bias=False, **{{{ENTRIES}}})\n",
    "nothing": "",
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_configuration_of_any_kind_is_found_and_made_small(kind, write, logits_shape):
    loaded = load(f"{write(CONFIGS[kind] + CONFIGURED)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert len(loaded.model.blocks) == 3
    assert loaded.model.blocks[0].attention.heads == 6
    assert "config.vocab_size was chosen as 97" in loaded.notes


def test_a_pydantic_configuration_is_made_small(write, logits_shape):
    pytest.importorskip("pydantic")
    config = f"from pydantic import BaseModel\nclass Config(BaseModel):\n{FIELDS}\n"
    loaded = load(f"{write(config + '    bias: bool = False' + chr(10) + CONFIGURED)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)


@pytest.mark.parametrize(
    "template",
    [
        f"SIZES = {{{ENTRIES}, 'bias': False}}\n",
        f"SIZES = {{'large': {{{ENTRIES}, 'bias': False}}}}\n",
        f"def main():\n    sizes = {{{ENTRIES}, 'bias': False}}\n    return Model(sizes)\n",
        "",
    ],
    ids=["constant", "named sizes", "inside a function", "none"],
)
def test_a_mapping_is_made_from_constants_or_from_what_is_read(template, write, logits_shape):
    source = CONFIGURED
    for name in ("vocab_size", "n_embd", "block_size", "n_head", "n_layer", "bias"):
        source = source.replace(f"config.{name}", f'cfg["{name}"]')
    source = source.replace("self.config = config", "").replace("(self, config)", "(self, cfg)")
    loaded = load(f"{write(template + source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert "cfg.n_layer was chosen as 3" in loaded.notes


def test_a_configuration_class_in_a_neighbouring_file_is_found(write):
    write(CONFIGS["dataclass"].replace("bool = False", "bool = True"), "settings_of_model.py")
    loaded = load(f"{write(CONFIGURED)}:Model")
    assert loaded.model.head.bias is not None


def test_an_annotation_shows_the_configuration_among_several(write):
    other = "@dataclass\nclass TrainConfig:\n    vocab_size: int = 3\n    steps: int = 10\n"
    source = CONFIGURED.replace("(self, config)", "(self, config: 'Config')")
    loaded = load(f"{write(CONFIGS['dataclass'] + other + source)}:Model")
    assert type(loaded.model.config).__name__ == "Config"


def test_a_named_size_gives_way_to_the_chosen_sizes(write):
    source = CONFIGURED.replace(
        "    def __init__(self, config):\n        super().__init__()\n        self.config",
        "    @staticmethod\n    def get_default_config():\n"
        "        from types import SimpleNamespace\n"
        "        return SimpleNamespace(model_type='gpt2', vocab_size=None, n_embd=None,\n"
        "            block_size=None, n_head=None, n_layer=None, bias=False)\n\n"
        "    def __init__(self, config):\n        super().__init__()\n"
        "        assert config.model_type is None\n        self.config",
    )
    loaded = load(f"{write(source)}:Model")
    assert "config.model_type was chosen as None" in loaded.notes


def test_a_field_is_set_by_its_path_by_config_and_by_its_own_name(write):
    path = write(CONFIGS["dataclass"] + CONFIGURED.replace("config", "hparams"))
    for key in ("hparams.n_layer", "config.n_layer", "n_layer"):
        assert len(load(f"{path}:Model", settings={key: 1}).model.blocks) == 1


def test_a_whole_configuration_is_set_as_a_mapping(write):
    path = write(CONFIGS["dataclass"] + CONFIGURED)
    loaded = load(f"{path}:Model", settings={"config": {"n_layer": 1, "vocab_size": 19}})
    assert len(loaded.model.blocks) == 1
    assert loaded.model.head.out_features == 19


def test_a_width_that_is_given_gets_heads_that_divide_it(write):
    path = write(CONFIGS["dataclass"] + CONFIGURED)
    loaded = load(f"{path}:Model", settings={"n_embd": 20})
    assert loaded.model.embedding.embedding_dim == 20
    assert 20 % loaded.model.blocks[0].attention.heads == 0


def test_small_defaults_are_kept(write):
    loaded = load(f"{write(MODEL)}:Model", settings={"vocab_size": 11})
    assert loaded.notes == []
    assert loaded.model.embedding.embedding_dim == 32


def test_large_defaults_are_kept_only_as_configured(write):
    path = write(MODEL.replace("d_model=32", "d_model=1024").replace("n_head=4", "n_head=16"))
    assert load(f"{path}:Model").model.embedding.embedding_dim == 48
    loaded = load(f"{path}:Model", as_configured=True)
    assert loaded.model.embedding.embedding_dim == 1024


def test_values_agree_with_the_defaults_that_are_kept(write):
    path = write(MODEL.replace("d_model=32, n_head=4", "d_model, n_head=5"))
    model = load(f"{path}:Model").model
    assert model.embedding.embedding_dim % 5 == 0


def test_friendlier_sizes_are_tried_where_the_awkward_ones_do_not_build(write):
    source = MODEL.replace("d_model=32, n_head=4", "d_model, n_head")
    path = write(
        source.replace(
            "        self.embedding", "        assert n_head == 4\n        self.embedding"
        )
    )
    assert load(f"{path}:Model").model.blocks[0].attention.heads == 4


def test_all_values_whose_meaning_is_not_plain_are_asked_for_at_once(write):
    path = write(MODEL.replace("(self, vocab_size,", "(self, vocab_size, flavour, zest,"))
    with pytest.raises(
        SubjectError, match=r"needs flavour, zest.* --set flavour=VALUE --set zest=VALUE"
    ) as caught:
        load(f"{path}:Model")
    assert caught.value.exit_status == 3
    load(f"{path}:Model", settings={"flavour": 1, "zest": 2})


def test_fields_whose_meaning_is_not_plain_are_asked_for_at_once(write):
    source = CONFIGURED.replace("config.bias", "config.flavour + config.zest")
    with pytest.raises(SubjectError, match=r"--set config.flavour=VALUE --set config.zest=VALUE"):
        load(f"{write(source)}:Model")


def test_a_setting_that_does_not_exist_is_refused_with_the_possible_ones(write):
    with pytest.raises(
        UsageError,
        match=r"no setting 'n_layr'. Did you mean n_layer\? Possible are: vocab_size, d_m",
    ) as caught:
        load(f"{write(MODEL)}:Model", settings={"n_layr": 2})
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    "result", ["model", "(model, 'tokenizer')", "[model]", "{'model': model, 'step': 3}"]
)
def test_a_factory_may_return_the_module_or_hold_it(result, write, logits_shape):
    path = write(
        MODEL + f"\ndef build(num_tokens):\n    model = Model(num_tokens)\n    return {result}\n"
    )
    assert logits_shape(load(f"{path}:build").model) == (3, 7, 97)


def test_a_factory_that_returns_something_else_says_what(write):
    with pytest.raises(SubjectError, match=r"build gives a str, not a torch.nn.Module"):
        load(f"{write('def build():' + chr(10) + '    return chr(65)')}:build")


def test_an_instance_in_a_file_is_taken_as_it_is(write):
    path = write(MODEL + "\nready = Model(11)\n")
    loaded = load(f"{path}:ready")
    assert loaded.model.head.out_features == 11
    assert loaded.rebuild() is not loaded.model


def test_a_model_that_its_constructor_cannot_build_tells_its_error_and_what_was_tried(write):
    path = write(
        MODEL.replace(
            "        self.embedding",
            "        raise OSError('disk on fire')\n        self.embedding",
        )
    )
    with pytest.raises(SubjectError, match=r"OSError: disk on fire.* vocab_size=97") as caught:
        load(f"{path}:Model")
    assert isinstance(caught.value.__cause__, OSError)


def test_building_twice_gives_the_same_weights_and_leaves_the_generator_alone(write):
    before = torch.get_rng_state()
    loaded = load(f"{write(MODEL)}:Model")
    again = loaded.rebuild()
    assert torch.equal(before, torch.get_rng_state())
    assert again is not loaded.model
    for one, other in zip(loaded.model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_a_model_prints_stays_off_standard_output(write, capsys):
    source = MODEL.replace(
        "        self.embedding", "        print('parameters')\n        self.embedding"
    )
    load(f"{write('print(1)' + chr(10) + source)}:Model")
    assert capsys.readouterr().out == ""


def test_a_default_dtype_that_a_model_sets_is_put_back(write):
    source = MODEL.replace(
        "        self.embedding",
        "        torch.set_default_dtype(torch.float64)\n        self.embedding",
    )
    load(f"{write(source)}:Model")
    assert torch.get_default_dtype() is torch.float32


def test_an_encoder_decoder_is_built_and_left_to_be_called(write):
    path = write(
        PARTS + "\nclass Translator(nn.Module):\n    def __init__(self, src_vocab, tgt_vocab):\n"
        "        super().__init__()\n        self.source = nn.Embedding(src_vocab, 8)\n"
        "    def forward(self, source, target, source_mask, target_mask):\n"
        "        return self.source(source)\n"
    )
    assert type(load(f"{path}:Translator").model).__name__ == "Translator"


class Tiny(nn.Module):
    def __init__(self, vocab_size, layers=1):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, ids):
        return self.table(ids)


def tiny_of(vocab):
    return Tiny(vocab)


def test_live_classes_factories_and_modules_are_subjects(logits_shape):
    assert logits_shape(load(Tiny).model) == (3, 7, 97)
    assert logits_shape(load(tiny_of).model) == (3, 7, 97)
    model = Tiny(11)
    loaded = load(model)
    assert loaded.model is model
    assert loaded.name == "Tiny"
    assert loaded.rebuild is None


def test_a_live_module_takes_no_settings():
    with pytest.raises(UsageError, match="takes no settings"):
        load(Tiny(11), settings={"layers": 2})


def test_the_reference_is_the_articles_gpt():
    loaded = load("reference")
    assert sum(p.numel() for p in loaded.model.parameters()) == 810_624
    assert loaded.name == "reference"


def test_options_of_a_command_line_are_a_configuration(write, logits_shape):
    options = "".join(
        f"    parser.add_argument('--{name}', type=int, default={value})\n"
        for name, value in LARGE.items()
    )
    source = (
        "import argparse\n"
        + CONFIGURED.replace("(self, config)", "(self, args)").replace("config", "args")
        + f"\nif __name__ == '__main__':\n    parser = argparse.ArgumentParser()\n{options}"
        "    parser.add_argument('--bias', '-b', default=True)\n"
        "    Model(parser.parse_args())\n"
    )
    loaded = load(f"{write(source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert loaded.model.head.bias is not None


def test_capitals_in_a_module_are_a_configuration(write, logits_shape):
    names = {name: name.upper() for name in [*LARGE, "bias"]}
    source = CONFIGURED.replace("self.config = config", "")
    for name, upper in names.items():
        source = source.replace(f"config.{name}", f"config.{upper}")
    assigned = "".join(f"{names[name]} = {value}\n" for name, value in LARGE.items())
    write(f"{assigned}BIAS = True\n", "constants_of_a_model.py")
    loaded = load(f"{write('import constants_of_a_model as settings' + chr(10) + source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert loaded.model.head.bias is not None


def test_the_smallest_class_that_has_every_field_is_taken(write):
    more = "\n".join(f"    extra_{n}: int = {n}" for n in range(9))
    kinds = f"@dataclass\nclass WholeConfig:\n{FIELDS}\n    bias: bool = True\n{more}\n"
    config = CONFIGS["dataclass"].replace("class Config", "class ModelSizesConfig")
    source = "from dataclasses import dataclass\n" + kinds + config + CONFIGURED
    loaded = load(f"{write(source)}:Model")
    assert type(loaded.model.config).__name__ == "ModelSizesConfig"


def test_a_mapping_of_a_library_is_a_mapping(write, logits_shape):
    source = (
        "import collections\n"
        "class DictConfig(collections.UserDict):\n"
        "    def __getattr__(self, name):\n"
        "        if name == 'data':\n"
        "            raise AttributeError(name)\n"
        "        return self.data[name]\n"
        + CONFIGURED.replace("(self, config)", "(self, config: DictConfig)")
        + f"\nchosen = DictConfig({{{ENTRIES}, 'bias': True}})\n"
    )
    loaded = load(f"{write(source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)


def test_a_property_of_a_configuration_is_left_to_it(write, logits_shape):
    config = (
        "class Config:\n    bias = False\n"
        "    def __init__(self, vocab_size, block_size, **kwargs):\n"
        "        self.vocab_size, self.block_size = vocab_size, block_size\n"
        "        for name, value in kwargs.items():\n            setattr(self, name, value)\n"
        "    @property\n    def use_bias(self):\n        return True\n"
    )
    source = CONFIGURED.replace("bias=config.bias", "bias=config.use_bias")
    loaded = load(f"{write(config + source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert loaded.model.head.bias is not None


def test_a_class_for_a_default_is_made(write, logits_shape):
    source = CONFIGURED.replace("(self, config)", "(self, config=Config)")
    loaded = load(f"{write(CONFIGS['dataclass'].replace('= 50257', '= -1') + source)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
