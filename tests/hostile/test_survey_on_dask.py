"""A survey on a Dask cluster whose workers, and whose scheduler, are lost."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from .manners import subject

pytest.importorskip("distributed")

CLUSTER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
GRANDPARENT = "int(open(f'/proc/{os.getppid()}/stat').read().split()[3])"
SLOW = f"""
if not os.path.exists("seen"):
    open("new", "w").write(str({GRANDPARENT}))
    os.rename("new", "seen")
    time.sleep(50)
"""
SUBJECTS = {
    "slow": subject("slow", built=SLOW, statuses={0}),
    "poison": subject("poison", built=f"os.kill({GRANDPARENT}, 9)\ntime.sleep(50)", statuses={3}),
    "right": subject("right", statuses={0}),
    "leaks": subject("leaks", gives="logits + logits.flip(1)", statuses={1}),
}


@pytest.fixture
def cluster(tmp_path):
    """The process of a cluster, and its address."""
    script = tmp_path / "cluster" / "cluster.py"
    script.parent.mkdir()
    script.write_text(CLUSTER, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=script.parent,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    yield process, process.stdout.readline().strip()
    process.communicate()


def start(folder, address, *names):
    for name in names:
        (folder / f"{name}.py").write_text(SUBJECTS[name].text, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "theodolite", "survey", *(f"{name}.py:make" for name in names),
         "--dask", address, "--budget", "quick", "--select", "causality"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def appeared(file, process):
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.05)
    return file.read_text("utf-8")


def told(folder):
    lines = (folder / "survey" / "survey.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_lost_workers_cost_no_subject_and_each_is_reported_once(cluster, tmp_path):
    process = start(tmp_path, cluster[1], *SUBJECTS)
    os.kill(int(appeared(tmp_path / "seen", process)), signal.SIGKILL)
    _, err = process.communicate()
    lines = {line["subject"].partition(".")[0]: line for line in told(tmp_path)}
    assert len(told(tmp_path)) == len(lines) == len(SUBJECTS), err
    verdicts = {name: line["verdict"] for name, line in lines.items()}
    assert verdicts == {"slow": "pass", "poison": "error", "right": "pass", "leaks": "fail"}
    assert lines["slow"]["tries"] >= 2
    assert "workers that it was given to were lost, when it was alone" in lines["poison"]["says"]
    assert process.returncode == 1


@pytest.mark.slow
def test_what_has_ended_is_kept_when_the_scheduler_is_lost(cluster, tmp_path):
    process = start(tmp_path, cluster[1], "leaks", "slow")
    appeared(tmp_path / "seen", process)
    while not told(tmp_path):
        time.sleep(0.1)
    os.killpg(cluster[0].pid, signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 4
    assert "the Dask scheduler was lost; what has ended is kept" in err
    assert "Traceback" not in err
    assert [line["subject"] for line in told(tmp_path)] == ["leaks.py:make"]
    assert (tmp_path / "survey" / "index.html").read_text("utf-8").count("leaks.py:make") > 0
