"""Where a subject may stand, and where what it imports is looked for."""

import json

import pytest

from theodolite.fixtures.errors import SubjectError, UsageError
from theodolite.fixtures.subject.subject import Subject

from .as_audited import load
from .sources import MODEL

BUILD = "\ndef build():\n    return Model(SIZE)\n"


def test_a_missing_module_is_looked_for_in_every_folder_above(write, logits_shape):
    write("A chapter, no root.\n", "source/models/README.md")
    write("SIZE = 11\n", "source/common/sizes.py")
    path = write(f"from source.common.sizes import SIZE\n{MODEL}{BUILD}", "source/models/model.py")
    assert logits_shape(load(f"{path}:build").model) == (3, 7, 11)


def test_what_a_model_imports_when_it_runs_is_still_found(write):
    write("def same(x):\n    return x\n", "beside_the_model.py")
    lazy = "from beside_the_model import same\n        return same(self.head"
    path = write(MODEL.replace("return self.head", lazy).replace("(ids)))", "(ids))))"))
    subject = Subject.load(f"{path}:Model")
    assert subject.run(subject.model, subject.random_ids(2)).shape[-1] == 97


def test_a_path_may_be_relative_to_any_folder_above(write, logits_shape):
    write("A project.\n", "README.md")
    write("11", "sizes/small.txt")
    read = "SIZE = int(open('sizes/small.txt').read())\n"
    path = write(f"{read}{MODEL}{BUILD}", "source/models/model.py")
    assert logits_shape(load(f"{path}:build").model) == (3, 7, 11)


def test_a_module_is_an_attribute_of_its_package(write, logits_shape):
    write("", "package/__init__.py")
    path = write(
        "import package\nimport a_trainer_that_nobody_has\n"
        + MODEL.replace("nn.Linear(d_model", "package.model.nn.Linear(d_model")
        + "\nModel(11).train_it()\n",
        "package/model.py",
    )
    assert logits_shape(load(f"{path}:Model").model) == (3, 7, 97)


@pytest.mark.parametrize("imported", ["from . import sizes", "from package import sizes"])
def test_a_module_of_the_package_that_cannot_be_imported_is_taken(imported, write, logits_shape):
    write("", "package/__init__.py")
    write("from a_checker_that_nobody_has import Int\nSIZE: Int[3] = 11\n", "package/sizes.py")
    build = BUILD.replace("SIZE", "sizes.SIZE")
    path = write(f"{imported}\n{MODEL}{build}", "package/model.py")
    assert logits_shape(load(f"{path}:build").model) == (3, 7, 11)


def notebook(*cells):
    return json.dumps(
        {"cells": [{"cell_type": kind, "source": text.splitlines(True)} for kind, text in cells]}
    )


def test_a_model_in_a_notebook_is_built(tmp_path, logits_shape):
    path = tmp_path / "lesson.ipynb"
    path.write_text(
        notebook(
            ("markdown", "# A model\nfrom nowhere import nothing"),
            ("code", "%matplotlib inline\n!pip install torch\nimport torch"),
            ("code", "%%bash\nls"),
            ("code", "this is no Python"),
            ("code", MODEL),
            ("code", "for step in range(10):\n    raise RuntimeError('it trains')"),
        )
    )
    assert logits_shape(load(f"{path}:Model").model) == (3, 7, 97)
    assert logits_shape(load(str(path)).model) == (3, 7, 97)


def test_what_is_no_notebook_says_so(tmp_path):
    path = tmp_path / "lesson.ipynb"
    path.write_text("{}")
    with pytest.raises(SubjectError, match="a notebook has cells"):
        load(f"{path}:Model")


def test_a_folder_means_its_one_model(write, monkeypatch, tmp_path, logits_shape):
    write(MODEL, "source/model.py")
    write("from torch import nn\nclass Probe(nn.Module):\n    pass\n", "source/probe.py")
    write(MODEL.replace("class Model", "class Fake"), "tests/test_model.py")
    loaded = load(str(tmp_path))
    assert loaded.name == f"{tmp_path}/source/model.py:Model"
    assert logits_shape(loaded.model) == (3, 7, 97)
    monkeypatch.chdir(tmp_path)
    assert logits_shape(load(".").model) == (3, 7, 97)


def test_a_folder_of_several_models_names_them(write, tmp_path):
    write(MODEL, "first.py")
    write(MODEL.replace("class Model", "class Second"), "second.py")
    with pytest.raises(UsageError, match=r"any of first.py:Model, second.py:Second: name one"):
        load(str(tmp_path))


def test_a_folder_without_a_model_says_so(write, tmp_path):
    write("x = 1\n")
    with pytest.raises(SubjectError, match=r"No file in .* defines a language model"):
        load(str(tmp_path))
