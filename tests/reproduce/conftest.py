import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from theodolite.cli import main

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "audit")]

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
        words = ["audit", str(spec), "--reproduce", str(folder), "--json", str(file)]
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
