import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from theodolite import cli

sys.path.insert(0, str(Path(__file__).parent))


@dataclass
class Outcome:
    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def theodolite(tmp_path, monkeypatch, capsys):
    """Run the command as a person does in an empty folder, within this process to save time."""

    def run(*words, folder=tmp_path, **environment):
        monkeypatch.chdir(folder)
        for name, value in {"COLUMNS": "200", **environment}.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        try:
            status = cli.main([*map(str, words)])
        except SystemExit as end:
            status = end.code or 0
        return Outcome(status, *capsys.readouterr())

    return run


@pytest.fixture
def process(tmp_path):
    """Run the command in a process of its own, in an empty folder."""

    def run(*words, folder=tmp_path, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "theodolite", *map(str, words)],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run
