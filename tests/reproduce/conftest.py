import json
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from theodolite.cli import main

# Each script runs in a process of its own; torch is imported once, before they part.
DRIVER = """
import contextlib, io, json, os, runpy, sys
import torch
torch.set_num_threads(1)
said = {}
for script in sys.argv[1:]:
    read, write = os.pipe()
    if os.fork() == 0:
        status, text = 0, ""
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                runpy.run_path(script, run_name="__main__")
        except BaseException as error:
            status, text = 1, f"{type(error).__name__}: {error}"
        os.write(write, json.dumps([status, text[:1000]]).encode())
        os._exit(0)
    os.wait()
    said[script] = json.loads(os.read(read, 10000))
    os.close(read), os.close(write)
print(json.dumps(said))
"""


@dataclass
class Reproduced:
    """An audit with --reproduce: its report, and its scripts by check."""

    report: dict
    scripts: dict

    def outcomes(self):
        """Check → (exit status, what was said), each script in a process of its own."""
        files = [str(script) for script in self.scripts.values()]
        done = subprocess.run(
            [sys.executable, "-B", "-c", DRIVER, *files],
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        said = json.loads(done.stdout)
        return {check: tuple(said[str(script)]) for check, script in self.scripts.items()}

    @property
    def failed(self):
        return {c["id"]: c for c in self.report["checks"] if c["outcome"] == "failed"}


@pytest.fixture
def reproduce(tmp_path):
    """Audit a subject on the command line with --reproduce."""

    def audit(spec, *, select=(), settings=None, declare=None):
        folder, file = tmp_path / "scripts", tmp_path / "report.json"
        words = [
            "audit",
            str(spec),
            "--strict",
            "--no-proof",
            "--reproduce",
            str(folder),
            "--json",
            str(file),
        ]
        for option, values in (("--set", settings), ("--declare", declare)):
            for key, value in (values or {}).items():
                words += [option, f"{key}={json.dumps(value)}"]
        for check in select:
            words += ["--select", check]
        assert main(words) == 1
        report = json.loads(file.read_text(encoding="utf-8"))
        scripts = {path.stem: path for path in folder.glob("*.py")}
        return Reproduced(report, scripts)

    return audit


@pytest.fixture
def shows_and_mends():
    """What every script must do: fail on the faulty model, and end well on the mended one."""
    return _shows_and_mends


LONGEST = 32
"""Lines of a script that are not empty."""

WITHOUT = {
    "inside.sinks",  # what a sink weighs takes more than a few lines to read off
    "declared.feed_forward",  # so are width and activation of a network
    "parameters.formula",  # it needs the anatomy
    "positions.slopes",  # slopes are read off scores from which products are taken away
    "norm.alike",  # so is the epsilon of a norm
    "padding.cache",  # where a mask is refused in one form and taken in another
}
"""Checks of these faults whose failures may be without a script, and why."""


def _shows_and_mends(found, file, mended):
    """Every script fails on the faulty file, and ends well on the correct one; none is long."""
    missing = {
        check: each["no_script"]
        for check, each in found.failed.items()
        if check not in found.scripts
    }
    assert set(missing) <= WITHOUT, missing
    assert all(missing.values())
    for script in found.scripts.values():
        text = script.read_text(encoding="utf-8")
        assert len([line for line in text.splitlines() if line.strip()]) <= LONGEST, text
        assert not re.search(r"^\s*(from|import) theodolite", text, re.MULTILINE)
    for check, (status, said) in found.outcomes().items():
        assert status == 1, check
        assert said.startswith("AssertionError"), f"{check}: {said}"
    if mended is not None:
        file.write_text(mended, encoding="utf-8")
        assert {check: said for check, (_, said) in found.outcomes().items() if said} == {}
