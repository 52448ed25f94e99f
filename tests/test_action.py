"""The GitHub Action, its steps run as a runner runs them: red for a faulty model, then green."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
RIGHT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(19, 19)

    def forward(self, ids):
        x = self.table(ids)
        count = torch.arange(1, x.shape[1] + 1)[:, None]
        return x.cumsum(1) / count
"""
WRONG = RIGHT.replace("x.cumsum(1)", "x.flip(1).cumsum(1)")


@pytest.fixture
def act(tmp_path):
    """Run the action's own steps, but for the installation and what other actions do."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))

    def run(**given):
        inputs = {name: each.get("default", "") for name, each in action["inputs"].items()} | given
        outputs, summary = tmp_path / "outputs", tmp_path / "summary"
        outputs.write_text("", encoding="utf-8")
        printed, done = "", None
        for step in action["runs"]["steps"]:
            if "run" not in step or "pip install" in step["run"]:
                continue
            said = dict(line.split("=", 1) for line in outputs.read_text("utf-8").splitlines())
            known = {f"inputs.{name}": text for name, text in inputs.items()}
            known |= {f"steps.audit.outputs.{name}": text for name, text in said.items()}
            env = {
                name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found, known=known: known[found[1]], text)
                for name, text in step["env"].items()
            }
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
                cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
                env={**os.environ, **env, "PATH": path, "GITHUB_OUTPUT": str(outputs),
                     "GITHUB_STEP_SUMMARY": str(summary), "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            printed += done.stdout
            assert done.returncode == 0 or step["name"] == "Conclude", done.stderr
        return done.returncode, printed, summary.read_text("utf-8")

    return run


def test_the_check_is_red_for_a_faulty_model_and_then_green(act, tmp_path):
    (tmp_path / "my gpt.py").write_text(WRONG, encoding="utf-8")
    how = {"subject": "my gpt.py:Model", "options": "--select causality --select shape"}
    status, printed, summary = act(**how)
    assert status == 1
    annotation = next(line for line in printed.splitlines() if line.startswith("::error "))
    assert "file=my gpt.py,line=" in annotation
    assert "Theodolite: fail" in summary
    (run,) = json.loads((tmp_path / "theodolite.sarif").read_text("utf-8"))["runs"]
    assert {result["level"] for result in run["results"]} == {"error"}

    (tmp_path / "my gpt.py").write_text(RIGHT, encoding="utf-8")
    status, printed, _ = act(**how)
    assert status == 0
    assert "::error" not in printed


def test_the_pre_commit_hook_is_a_command_that_there_is():
    from theodolite.cli import main

    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    words = hook["entry"].split()
    assert words[0] == "theodolite"
    assert main([*words[1:], "--list", "--json", "-"]) == 0
