"""How much memory an audit takes, measured from outside: a process of its own, its largest size.

At most four times the weights (the model, its sharpened copy, and a copy in float64 or with what a
training needs) and four times `ROOM` (the activations of a forward, their logits twice, what is
recorded) beyond what is imported.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from decoders import Lectures, rotary

from theodolite.fixtures.anatomy.head_reach import reach_of
from theodolite.fixtures.recording.backward import each_gradient
from theodolite.fixtures.recording.tensors import Copies
from theodolite.fixtures.subject.subject import ROOM, Subject

HERE = Path(__file__).parent
MIB = 2**20
MEASURE = """
import json, resource, sys
import theodolite
from theodolite.fixtures.subject.subject import Subject

def largest():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

select = sys.argv[3:] or None
theodolite.audit("reference", budget="quick", select=select)  # what is imported once
before = largest()
subject = Subject.load(sys.argv[1], settings=json.loads(sys.argv[2]), as_configured=True)
report = theodolite.audit(subject, select=select)
weights = sum(p.nbytes for p in subject.model.parameters())
print(json.dumps({
    "peak": largest() - before,
    "weights": weights,
    "row": subject.bytes_of_a_row,
    "failed": [check.message for check in report.failures],
    "passed": report.summary["passed"],
}))
"""


def measured(spec, *select, **settings):
    command = [sys.executable, "-c", MEASURE, f"{HERE / 'large.py'}:{spec}", json.dumps(settings)]
    done = subprocess.run([*command, *select], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["passed"]
    assert not found["failed"]
    return found


def most(found):
    return 4 * found["weights"] + 4 * ROOM


def test_rows_are_split_by_what_one_costs():
    """127 rows at once would be 1.0 GB of logits, twice, and in float64 twice that again."""
    found = measured("Long", "causality.perturb", "causality.past", "vocabulary.finite")
    assert found["row"] > 8 * MIB
    assert found["peak"] < most(found)


@pytest.mark.slow
def test_an_audit_takes_a_few_times_the_weights():
    found = measured("Wide")
    assert found["weights"] > 100 * MIB
    assert found["peak"] < most(found)


@pytest.mark.parametrize("rows", [1, 3, 4, 11])
def test_what_is_read_in_portions_is_what_is_read_at_once(rows, monkeypatch):
    subject = Subject.load(Lectures(64))
    ids = subject.random_ids(rows)
    at_once = subject.run(subject.model, ids, whole=True)
    monkeypatch.setattr(subject, "bytes_of_a_row", ROOM)
    calls = subject.calls
    torch.testing.assert_close(subject.run(subject.model, ids), at_once)
    assert subject.calls - calls == -(-rows // 3)


def test_gradients_are_handed_on_one_by_one_and_nothing_is_left():
    one, two, unused = (torch.nn.Parameter(torch.full((2,), x)) for x in (2.0, 3.0, 4.0))
    one.grad = kept = torch.ones(2)
    found = {}
    value = (one * two + one).sum()
    each_gradient(value, [one, two, unused], lambda i, gradient: found.update({i: gradient}))
    assert {i: gradient.tolist() for i, gradient in found.items()} == {0: [4, 4], 1: [2, 2]}
    assert one.grad is kept
    assert two.grad is None


def test_one_tensor_is_copied_once_until_it_is_written_into():
    copies, tensor = Copies(), torch.zeros(3)
    first = copies.of(tensor)
    assert copies.of(tensor) is first
    tensor.add_(1)
    assert copies.of(tensor).tolist() == [1, 1, 1]
    assert first.tolist() == [0, 0, 0]


def test_what_heads_reach_is_the_same_in_portions():
    found = []
    for cost in (1, ROOM // 3):
        subject = Subject.load(rotary(16))
        subject.bytes_of_a_row = cost
        before = subject.calls
        found.append((reach_of(subject.views.sharpened), subject.calls - before))
    (at_once, few), (portioned, more) = found
    assert more > few
    assert len(at_once) == 6
    for one, other in zip(at_once, portioned, strict=True):
        assert torch.equal(one.reached, other.reached)
