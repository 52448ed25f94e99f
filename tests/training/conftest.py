import json
import os
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest

from theodolite import cli
from theodolite.fixtures.oracles.corpus import story

SMALL = ["--batch=4", "--context=16", "--set=width=16", "--set=layers=2", "--set=heads=2"]
SMALL += ["--eval-every=10", "--sample=20"]


class Done(NamedTuple):
    status: int
    output: str
    errors: str


class Train:
    """`theodolite train` with a small model on a short text, in a folder of its own."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        (folder / "story.txt").write_text(story()[:6000], encoding="utf-8")

    def __call__(self, *arguments, file="story.txt"):
        """In this process."""
        self.capsys.readouterr()
        status = cli.main(["train", str(file), *SMALL, *arguments])
        return Done(status, *self.capsys.readouterr())

    def apart(self, *arguments, file="story.txt", until=None, signal=None):
        """In a process of its own; given `until`, send it `signal` at the line that begins so."""
        code = "import sys; from theodolite.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "train", file, *SMALL, *arguments]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            if until is not None:
                next(line for line in process.stdout if line.startswith(until))
                os.kill(process.pid, signal)
            output, errors = process.communicate()
        return Done(process.returncode, output, errors)

    def kill(self, until, *arguments):
        return self.apart(*arguments, until=until, signal=signal.SIGKILL)

    def log(self, name):
        lines = (self.folder / name).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def snapshot(self, name="run"):
        """The bytes of every file in the folder `name`."""
        return {file.name: file.read_bytes() for file in (self.folder / name).iterdir()}


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Train(tmp_path, capsys)
