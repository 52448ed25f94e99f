"""What a quick audit costs, and what it still sees."""

import json
from importlib.resources import files

import theodolite
from theodolite.knowledge import FILE, trials_of
from theodolite.selection import audit_checks


def test_a_quick_audit_costs_at_most_forty_forward_passes():
    report = theodolite.audit("reference", budget="quick")
    assert report.verdict == "pass"
    assert report.passes <= 40


def test_a_quick_audit_sees_nearly_all_known_faults():
    quick = {check for check, each in audit_checks().items() if each.is_asked("quick")}
    trials = trials_of(json.loads(files("theodolite").joinpath(FILE).read_text(encoding="utf-8")))
    seen = [trial for trial in trials if any(map(trial.symptoms.get, quick))]
    assert len(seen) >= 0.98 * len(trials)
