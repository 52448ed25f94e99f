"""The installed package: light to load, complete, and usable through each of its doors."""

import subprocess
import sys
import textwrap

import pytest


def run(*words, folder, **options):
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=300, check=False, **options
    )


def test_loading_the_plugin_imports_neither_torch_nor_hypothesis(tmp_path):
    code = (
        "import sys, theodolite.fixtures.plugin; "
        "print(sorted({'torch', 'hypothesis', 'numpy', 'transformers'} & set(sys.modules)))"
    )
    done = run(sys.executable, "-c", code, folder=tmp_path)
    assert done.stdout.strip() == "[]", done.stderr


def test_package_data_is_installed():
    from importlib.resources import files

    assert files("theodolite").joinpath("py.typed").is_file()
    assert files("theodolite.properties").joinpath("ledger.toml").is_file()
    assert files("theodolite.properties").joinpath("audit.ini").is_file()
    texts = files("theodolite.properties.mutants.hosts").joinpath("texts")
    for name in ("by_hand", "serving", "sparse", "training"):
        assert texts.joinpath(f"{name}.py.txt").is_file()
        assert texts.joinpath(f"{name}.faults").is_file()


FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(19, 19)

        def forward(self, ids):
            return self.table(ids) {more}
"""


@pytest.fixture
def folder(tmp_path):
    for name, more in (("leaky", "+ self.table(ids).flip(1)"), ("bigram", "")):
        text = textwrap.dedent(FAULTY).format(more=more)
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def pytest_on(folder, *words):
    return run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, folder=folder
    )


def test_pytest_audits_the_subject_that_it_is_told(folder):
    words = (
        "--pyargs",
        "theodolite.properties.checks.test_causality",
        "-k",
        "later_token or prefix_are",
    )
    leaky = pytest_on(folder, *words, "--subject=leaky.py:Model")
    assert leaky.returncode == 1
    assert "tokens after a position do not change its logits" in leaky.stdout
    bigram = pytest_on(folder, *words, "--subject=bigram.py:Model", "-n", "2")
    assert bigram.returncode == 0, bigram.stdout


def test_a_suite_of_its_own_can_override_the_model(folder):
    (folder / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef model():\n    import leaky\n    return leaky.Model()\n"
    )
    (folder / "test_mine.py").write_text(
        "from theodolite.properties.checks.test_causality import *\n", encoding="utf-8"
    )
    done = pytest_on(folder, "test_mine.py", "-k", "test_a_later_token")
    assert done.returncode == 1
    assert "tokens after a position do not change its logits" in done.stdout


def test_a_subject_that_cannot_be_loaded_is_a_sentence_in_pytest_too(folder):
    words = ("--pyargs", "theodolite.properties", "-k", "test_a_later_token")
    done = pytest_on(folder, *words, "--subject=nowhere.py:Model")
    assert done.returncode == 1
    assert "nowhere.py" in done.stdout
    assert "Traceback" not in done.stdout


def test_selecting_rope_selects_what_concerns_rope(folder):
    done = pytest_on(folder, "--pyargs", "theodolite.properties", "-k", "rope", "--collect-only")
    names = [line for line in done.stdout.splitlines() if "::" in line]
    assert names
    assert all("rope" in name.replace("properties", "") for name in names)
