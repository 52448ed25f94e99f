"""Whatever a subject does, there is a report, a sentence and the right exit status."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from theodolite.audit_command import EXIT_STATUS

from .manners import FEW, SUBJECTS

GROUPS = ("shape", "logits", "state", "causality", "gradient.every_parameter")
LIMITS = ("--time-limit", "3", "--memory-limit", "2", "--audit-limit", "400")


def start(text, folder, *words):
    (folder / "subject.py").write_text(text, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "theodolite", "audit", "subject.py:make", "--json", "report.json",
         *LIMITS, *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def finish(process, folder):
    out, err = process.communicate(timeout=500)
    return process.returncode, out, err, json.loads((folder / "report.json").read_text("utf-8"))


def judged_rightly(subject, folder, *words):
    status, out, err, report = finish(start(subject.text, folder, *words), folder)
    assert "Traceback" not in out + err
    assert status in subject.statuses, (status, report["verdict"], err)
    assert EXIT_STATUS[report["verdict"]] == status
    assert report["summary"]["planned"] == len(report["checks"])
    said = json.dumps(report, ensure_ascii=False) + err
    assert subject.says in said
    assert " nan" not in said.lower() or "nan" in subject.id
    return report


@pytest.mark.parametrize("name", FEW)
def test_a_subject_with_bad_manners_gets_a_report(name, tmp_path):
    select = [word for group in GROUPS for word in ("--select", group)]
    judged_rightly(SUBJECTS[name], tmp_path, *select)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_subject_with_bad_manners_gets_a_report(name, tmp_path):
    judged_rightly(SUBJECTS[name], tmp_path)


def test_what_was_judged_before_a_process_ended_is_kept(tmp_path):
    report = judged_rightly(SUBJECTS["os_exit_late"], tmp_path, "--select", "shape", "--select",
                            "logits", "--select", "state", "--select", "causality")  # fmt: skip
    outcomes = {check["id"]: check["outcome"] for check in report["checks"]}
    assert outcomes["shape.runs"] == outcomes["logits.finite"] == "passed"
    ended = [check for check in report["checks"] if check["outcome"] == "error"]
    assert all("ended itself with exit status 0" in check["message"] for check in ended)
    assert "could not be carried out" in report["incomplete"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_audit_leaves_a_report(tmp_path, number, status):
    quiet = SUBJECTS["sleep_late"]
    process = start(quiet.text, tmp_path, "--time-limit", "300")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not has_judged(process.pid):
        time.sleep(0.2)
    process.send_signal(number)
    ended, out, err, report = finish(process, tmp_path)
    assert ended == status
    assert "Traceback" not in out + err
    assert report["verdict"] in ("incomplete", "error")
    assert "interrupted" in (report.get("incomplete") or report["error"])


def has_judged(parent):
    """Whether the worker of `parent` has begun: it hangs once it has judged a little."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    try:
        return bool(children.read_text(encoding="ascii").split())
    except OSError:
        return True
