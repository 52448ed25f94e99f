"""A survey that is killed and called again: each subject is reported, and once."""

import json
import os
import subprocess
import sys
import time

import pytest

from theodolite.audit_command import EXIT_STATUS

from .manners import SUBJECTS, subject

STATUS_OF = {verdict: {status} for verdict, status in EXIT_STATUS.items()}
ASKED = (
    "--budget", "quick", "--select", "shape", "--select", "causality", "--time-limit", "5",
    "--memory-limit", "2", "--audit-limit", "300",
)  # fmt: skip
KILLER = subject(
    "kills_its_parent",
    does="os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)",
    statuses={3},
    says="the process that worked on it was ended by SIGKILL",
)
HOSTILE = (
    KILLER,
    *(
        SUBJECTS[name]
        for name in (
            "os_exit_at_once", "segfault_at_once", "exit_built", "deaf_at_once", "hog_at_once",
            "skip_at_once", "surrogate_at_once", "abort_at_once", "sigkill_at_once", "spin_built",
            "sleep_at_once", "interrupt_at_once", "unprintable_built", "os_exit_built",
            "sigterm_at_once", "creep_at_once", "long_built", "recursion_at_once", "a_list",
        )
    ),
)  # fmt: skip


def subjects(number, hostile):
    """`number` subjects, `hostile` of them so, spread among right ones and ones with a fault."""
    every = number // hostile
    for index in range(number):
        if index % every == 1 and index // every < hostile:
            yield HOSTILE[index // every]
        elif index % 4 == 3:
            yield subject(
                f"leaks_{index}", gives=f"logits + {index} * logits.flip(1)", statuses={1}
            )
        else:
            made = f"Small(width={8 * (1 + index % 3)}, heads=2, layers={1 + index % 2})"
            yield subject(f"right_{index}", made=made, statuses={0})


def start(folder, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "theodolite", "survey", "*.py:make", "--out", "found", "--jobs", "2",
         *ASKED, *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip


def lines(folder):
    file = folder / "found" / "survey.jsonl"
    return file.read_text("utf-8").splitlines() if file.exists() else []


def killed_at(number, folder):
    process = start(folder)
    while len(lines(folder)) < number:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert "are still to be audited" in (folder / "found" / "index.html").read_text("utf-8")


def surveyed(folder, number, hostile, kills):
    """A survey that is killed whenever so many have ended, and called again until it ends."""
    chosen = {each.id: each for each in subjects(number, hostile)}
    assert len(chosen) == number
    for each in chosen.values():
        (folder / f"{each.id}.py").write_text(each.text, encoding="utf-8")
    for kill in kills:
        killed_at(kill, folder)
    last = start(folder)
    out, _ = last.communicate()
    told = [json.loads(line) for line in lines(folder)]
    assert last.returncode == 1
    assert sorted(line["subject"] for line in told) == sorted(f"{name}.py:make" for name in chosen)
    for line in told:
        each = chosen[line["subject"].partition(".")[0]]
        report = json.loads((folder / "found" / line["report"]).read_text("utf-8"))
        assert STATUS_OF[line["verdict"]] <= each.statuses, line
        assert report["verdict"] == line["verdict"]
        assert report["command"] == line["command"]
        if each is KILLER:
            assert each.says in line["says"]
            assert line["tries"] == 2
    assert len(list((folder / "found" / "reports").glob("*.json"))) == number
    index = (folder / "found" / "index.html").read_text("utf-8")
    assert index.count('<td class="verdict ') == number
    assert f"{number} subjects" in out


def test_a_survey_that_is_killed_twice_reports_each_subject_once(tmp_path):
    surveyed(tmp_path, 6, 2, kills=(1, 3))


@pytest.mark.slow
def test_two_hundred_subjects_of_which_twenty_are_hostile(tmp_path):
    surveyed(tmp_path, 200, 20, kills=(60, 130))
