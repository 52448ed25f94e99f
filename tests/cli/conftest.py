import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest


@dataclass
class Outcome:
    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def theodolite(tmp_path):
    """Run the command in a process of its own, in an empty folder, as a person does."""

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
