"""A fault that is put into a model's text is told at its line, in an answer that is short."""

import importlib.util
import sys
from pathlib import Path

import pytest

from theodolite.properties.mutants import load_mutants

FILE = Path(__file__).parent.parent.parent / "benchmarks" / "lines.py"
SPEC = importlib.util.spec_from_file_location("lines_benchmark", FILE)
lines = sys.modules[SPEC.name] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lines)

MUTANTS = {mutant.name: mutant for mutant in load_mutants()}
TRIALS = {(host.name, name): host for host, name in lines.trials()}
OFTEN = [
    ("by_hand", "mask-transposed"),
    ("by_hand", "mask-after-softmax"),
    ("by_hand", "no-scale"),
    ("by_hand", "heads-joined-without-transpose"),
    ("by_hand", "frequency-index-from-one"),
    ("by_hand", "epsilon-outside-the-root"),
    ("by_hand", "swiglu-activates-the-other-branch"),
    ("serving", "new-keys-before-old"),
    ("serving", "loss-summed"),
]
MORE = list(TRIALS)[::10]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("place", "name"), OFTEN)
def test_the_line_that_was_changed_is_named_first(place, name, tmp_path):
    select = sorted({*MUTANTS[name].caught_by, "causality.perturb", "logits"})
    how = {"select": select, "prove": False}
    outcome = lines.outcome_of(TRIALS[place, name], name, tmp_path, **how)
    assert outcome.near, outcome.said
    assert outcome.causes > 1 or outcome.lines <= 25


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_most_faults_are_told_at_their_line_and_all_of_them_shortly(tmp_path):
    """Of each tenth fault of all texts, the line in 70 % and the function in 90 %."""
    found = []
    for place, name in MORE:
        folder = tmp_path / f"{place}-{name}"
        folder.mkdir()
        outcome = lines.outcome_of(TRIALS[place, name], name, folder, budget="quick", prove=False)
        found += [outcome] if outcome is not None else []
    assert all(outcome.lines <= 25 for outcome in found if outcome.causes == 1), found
    missed = [outcome for outcome in found if not outcome.near]
    assert len(missed) <= 0.3 * len(found), missed
    elsewhere = [outcome for outcome in found if not outcome.inside]
    assert len(elsewhere) <= 0.1 * len(found), elsewhere
