"""Let an off-the-shelf tool, mutmut, mutate the reference, with the project's own checks as tests.

python tests/mutation/run.py FOLDER [MODULE ...]

Every module is judged by the properties of its chapter and its own tests (suites.toml). The tool
wants sources below src/ under the names by which they are imported, so each module gets such a tree
below FOLDER. What becomes of each mutant is written to FOLDER/results.json as soon as its module is
done. Of a module that stands there already, only the mutants that were left are tried again.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
TOOL = [sys.executable, "-m", "mutmut"]

SUITES: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parent / "suites.toml").read_text(encoding="utf-8")
)

SETTINGS = """\
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-m", "not slow and not zoo", "-p", "no:cacheprovider"]
filterwarnings = ["ignore"]
markers = ["slow", "zoo"]

[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/theodolite/reference/{module}.py"]
also_copy = ["conftest.py"]
pytest_add_cli_args_test_selection = {tests}
process_isolation = "forkserver"
use_git_change_detection = false
# The wording of messages to people is not mutated.
do_not_mutate_patterns = ['\\braise\\b', '^\\s*f?"[^"]* [^"]*"', 'assert ', '^def ', '^    def ']
"""

CONFTEST = '''\
"""Only the verdict counts: a drawn property stops at its first failing example."""

from theodolite.fixtures.oracles.strategies import without_shrinking


def pytest_collection_modifyitems(items):
    for item in items:
        without_shrinking(item.obj)
'''

PARTS = {"audit": "", "reference": "reference", "fixtures": "fixtures", "properties": "properties"}


def lay_out(folder: Path, module: str) -> None:
    """Make the tree that the tool wants: sources, the tests of `module`, settings."""
    for source, name in PARTS.items():
        shutil.copytree(
            ROOT / source,
            folder / "src" / "theodolite" / name,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    tests = [f"src/theodolite/properties/{name}.py" for name in SUITES[module]]
    own = Path("tests") / "reference" / f"test_{module}.py"
    if (ROOT / own).exists():
        (folder / own).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / own, folder / own)
        tests.insert(0, str(own))
    settings = SETTINGS.replace("{module}", module).replace("{tests}", json.dumps(tests))
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")


def mutate(folder: Path, module: str, earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """Run the tool on one module, or on what was left of it before."""
    began = time.monotonic()
    lay_out(folder, module)
    again = [mutant["name"] for mutant in earlier["left"]] if earlier else []
    subprocess.run([*TOOL, "run", *again], cwd=folder, check=True)
    seconds = round(time.monotonic() - began) + (earlier["seconds"] if earlier else 0)
    return {**verdicts_in(folder), "seconds": seconds}


def verdicts_in(folder: Path) -> dict[str, Any]:
    """The tool's verdicts in numbers, and each mutant that no check failed."""
    shown = subprocess.run(
        [*TOOL, "results", "--all", "true"], cwd=folder, check=True, capture_output=True, text=True
    )
    verdicts = dict(re.findall(r"^\s+(\S+): (.+)$", shown.stdout, flags=re.MULTILINE))
    left = [name for name, said in verdicts.items() if said not in {"killed", "not checked"}]
    return {
        "verdicts": Counter(verdicts.values()),
        "left": [{"name": n, "verdict": verdicts[n], **change(folder, n)} for n in left],
    }


def change(folder: Path, name: str) -> dict[str, str]:
    """What one mutant changes: the function, the line that was, the line that it became."""
    shown = subprocess.run(
        [*TOOL, "show", name],
        cwd=folder, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    was, became = (
        " ".join(
            line[1:].strip() for line in shown.splitlines() if re.match(rf"\{sign}(?!{also})", line)
        )
        for sign, also in (("-", "--"), ("+", r"\+\+"))
    )
    function = name.rpartition(".")[2].partition("__mutmut_")[0]
    return {
        "function": ".".join(part for part in re.split("ǁ|^x_?", function) if part),
        "was": was,
        "became": became,
    }


def main(folder: str, *modules: str) -> None:
    """Run the modules named, or all, and write down what became of their mutants."""
    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    file = place / "results.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for module in modules or SUITES:
        earlier = results.get(module)
        if earlier is None or earlier["left"]:
            results[module] = mutate(place / module, module, earlier)
            file.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
