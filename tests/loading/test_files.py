"""Files: what is executed, what is importable meanwhile, and what is left behind."""

import random
import sys

import pytest
import torch

from theodolite.fixtures.errors import SubjectError, UsageError

from .as_audited import load
from .sources import CONFIGURED, MODEL, SCRIPT


def test_a_class_in_a_file_is_built(write, logits_shape):
    loaded = load(f"{write(MODEL)}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert loaded.notes == ["vocab_size was chosen as 97"]
    assert loaded.model.training


def test_two_files_of_one_name_do_not_collide(write, logits_shape):
    helper = "SIZE = {}\n"
    source = "import helper\n" + MODEL + "\ndef build():\n    return Model(helper.SIZE)\n"
    first, second = write(source, "a/model.py"), write(source, "b/model.py")
    write(helper.format(11), "a/helper.py")
    write(helper.format(13), "b/helper.py")
    assert logits_shape(load(f"{first}:build").model) == (3, 7, 11)
    assert logits_shape(load(f"{second}:build").model) == (3, 7, 13)


def test_the_import_path_and_the_neighbours_are_forgotten(write):
    write("SIZE = 11\n", "neighbour_of_model.py")
    path = write("import neighbour_of_model\n" + MODEL)
    before = list(sys.path)
    load(f"{path}:Model")
    assert sys.path == before
    assert "neighbour_of_model" not in sys.modules


def test_a_module_of_the_caller_with_the_same_name_stays_his(write, monkeypatch, logits_shape):
    mine = type(sys)("namesake")
    mine.__file__ = "/elsewhere/namesake.py"
    monkeypatch.setitem(sys.modules, "namesake", mine)
    write("SIZE = 11\n", "namesake.py")
    path = write("import namesake\n" + MODEL + "\ndef build():\n    return Model(namesake.SIZE)\n")
    assert logits_shape(load(f"{path}:build").model) == (3, 7, 11)
    assert sys.modules["namesake"] is mine


def test_relative_imports_work_in_a_package_that_cannot_be_imported(write, logits_shape):
    write("import a_tokenizer_that_nobody_has\n", "package/__init__.py")
    write("SIZE = 11\n", "package/sizes.py")
    path = write(
        "from .sizes import SIZE\n" + MODEL + "\ndef build():\n    return Model(SIZE)\n",
        "package/model.py",
    )
    assert logits_shape(load(f"{path}:build").model) == (3, 7, 11)


def test_a_projects_root_is_importable_from_its_folders(write, logits_shape):
    write("A project.\n", "README.md")
    write("SIZE = 11\n", "common/sizes.py")
    path = write(
        "from common.sizes import SIZE\n" + MODEL + "\ndef build():\n    return Model(SIZE)\n",
        "models/model.py",
    )
    assert logits_shape(load(f"{path}:build").model) == (3, 7, 11)


def test_a_script_that_trains_is_executed_only_as_far_as_the_model_needs(write, logits_shape):
    loaded = load(f"{write(SCRIPT, 'train.py')}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert loaded.notes[0] == "only what Model needs was executed of train.py"
    assert "vocab_size was chosen as 97" in loaded.notes
    assert "n_layer was chosen as 3" in loaded.notes
    assert sum(p.numel() for p in loaded.model.parameters()) < 200_000


def test_a_constant_of_a_script_can_be_set(write):
    loaded = load(f"{write(SCRIPT)}:Model", settings={"n_layer": 1, "vocab_size": 19})
    assert len(loaded.model.blocks) == 1
    assert loaded.model.head.out_features == 19


def test_a_text_beside_the_script_is_found_from_anywhere(write, logits_shape):
    write("hello", "text_that_is_not_there.txt")
    assert logits_shape(load(f"{write(SCRIPT)}:Model").model)[-1] == 97  # large: made small
    source = SCRIPT.replace("768", "48").replace("n_layer = 24", "n_layer = 1")
    assert logits_shape(load(f"{write(source)}:Model").model)[-1] == len(set("hello"))


def test_a_neighbour_that_trains_is_not_trained(write, logits_shape):
    write(SCRIPT, "train.py")
    path = write("from train import Block\n" + MODEL.replace("class Block", "class Unused"))
    loaded = load(f"{path}:Model")
    assert logits_shape(loaded.model) == (3, 7, 97)
    assert loaded.notes[0] == "only what Model needs was executed of train.py"


def test_a_helper_whose_file_needs_more_than_the_helper_is_still_imported(write, logits_shape):
    write("import a_logger_that_nobody_has\n\ndef size():\n    return 11\n", "helpers.py")
    path = write(
        "from helpers import size\n" + MODEL + "\ndef build():\n    return Model(size())\n"
    )
    assert logits_shape(load(f"{path}:build").model) == (3, 7, 11)


def test_an_optional_import_decides_as_it_would_in_the_file(write):
    path = write(
        MODEL
        + "\ntry:\n    import a_kernel_that_nobody_has\n    SIZE = 11\n"
        + "except ImportError:\n    SIZE = 13\n"
        + "\nclass Fast(Model):\n    def __init__(self):\n        super().__init__(SIZE)\n"
        + "\nfor step in range(3):\n    raise RuntimeError\n"
    )
    assert load(f"{path}:Fast").model.head.out_features == 13


def test_arguments_of_the_callers_command_line_are_not_the_scripts(write, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["theodolite", "--not-an-option-of-the-script"])
    path = write(
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--layers', type=int, default=2)\nargs = parser.parse_args()\n"
        + MODEL
        + "\ndef build():\n    return Model(11, n_layer=args.layers)\n"
    )
    assert len(load(f"{path}:build").model.blocks) == 2
    assert sys.argv == ["theodolite", "--not-an-option-of-the-script"]


def test_a_file_that_seeds_and_draws_leaves_the_callers_generators_alone(write):
    path = write(
        "import random\nimport numpy\nimport torch\ntorch.manual_seed(3)\nrandom.seed(3)\n"
        "numpy.random.seed(3)\ntorch.set_default_dtype(torch.float64)\n"
        + MODEL
        + "\nready = Model(11)\n"
    )
    before = torch.get_rng_state(), random.getstate()
    first, second = load(f"{path}:ready").model, load(f"{path}:ready").model
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert torch.get_default_dtype() is torch.float32
    assert torch.equal(first.head.weight, second.head.weight)


def test_a_file_whose_syntax_is_warned_of_is_read(write, logits_shape):
    path = write('PATTERN = "\\d"\n' + MODEL)
    assert logits_shape(load(f"{path}:Model").model) == (3, 7, 97)


def test_the_one_whole_model_of_a_file_needs_no_name(write):
    path = write(MODEL)
    loaded = load(str(path))
    assert type(loaded.model).__name__ == "Model"
    assert loaded.name == f"{path}:Model"
    assert loaded.notes[0] == (
        "Model was taken: it is the file's one module that no other class uses"
    )


OTHER = """

class Other(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, vocab_size)

    def forward(self, ids):
        return self.embedding(ids)
"""


def test_several_whole_models_are_listed(write):
    path = write(MODEL + OTHER)
    with pytest.raises(UsageError, match=r"could mean any of Model, Other: write model.py:Other"):
        load(str(path))


def test_a_file_without_a_module_says_so(write):
    with pytest.raises(SubjectError, match=r"defines no torch.nn.Module"):
        load(str(write("x = 1\n")))


def test_a_missing_file_is_named_with_the_nearest(write):
    path = write(MODEL)
    with pytest.raises(SubjectError, match=r"There is no file .*modle.py. Did you mean model.py\?"):
        load(f"{path.with_name('modle.py')}:Model")


def test_a_missing_name_is_answered_with_the_nearest_and_the_modules(write):
    with pytest.raises(
        SubjectError, match=r"has no Modle. Did you mean Model\?.* Attention, Block, Model"
    ):
        load(f"{write(MODEL)}:Modle")


def test_a_syntax_error_is_told_with_its_line(write):
    with pytest.raises(SubjectError, match=r"is not valid Python: .* in line 2"):
        load(f"{write('x = 1' + chr(10) + 'def f(:')}:f")


def test_a_package_that_the_model_needs_is_named(write):
    path = write(
        "from a_library_that_nobody_has import Layer\n"
        + MODEL.replace("self.head = ", "self.extra = Layer()\n        self.head = ")
    )
    with pytest.raises(
        SubjectError,
        match="the module a_library_that_nobody_has is not installed: pip install a_library_that",
    ):
        load(f"{path}:Model")


def test_a_package_that_only_the_forward_needs_is_named_too(write):
    path = write(
        "from a_library_that_nobody_has import shape\n"
        + MODEL.replace("return self.head(", "return shape(self.head)(")
    )
    with pytest.raises(SubjectError, match="a_library_that_nobody_has is not installed"):
        load(f"{path}:Model")


def test_an_importable_module_is_named_by_its_dots(write, monkeypatch, tmp_path, logits_shape):
    write("", "a_package_of_mine/__init__.py")
    write(CONFIGURED, "a_package_of_mine/model.py")
    monkeypatch.chdir(tmp_path)
    assert logits_shape(load("a_package_of_mine.model:Model").model) == (3, 7, 97)


def test_a_module_that_is_not_there_says_so():
    with pytest.raises(SubjectError, match="There is no module no_such_module_here"):
        load("no_such_module_here:Model")


@pytest.mark.parametrize("spec", ["", "nonsense", "model.txt", "a b:C", "hf", ":Model"])
def test_what_names_nothing_is_a_wrong_usage(spec):
    with pytest.raises(UsageError, match="does not name a subject") as caught:
        load(spec)
    assert caught.value.exit_status == 2


def test_a_name_that_is_made_from_itself_is_told_once(write):
    source = f"size = max(size, 3)\nfor size in range(3):\n    pass\n{MODEL}".replace(
        "n_layer=2", "n_layer=size"
    )
    with pytest.raises(SubjectError, match="size is not defined"):
        load(f"{write(source)}:Model")


def test_the_library_that_is_not_installed_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SubjectError, match=r"transformers library: pip install 'theodolite\[hf\]'"):
        load("hf:llama")
