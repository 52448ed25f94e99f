"""Every check that looks inside is failed by a mutant of the reference, and by the right one."""

import ast
from pathlib import Path

import pytest
from catching import catches, pairs

from theodolite import properties

CAUGHT_BY = {
    "inside.rows_sum_to_one": ["softmax-over-heads"],
    "inside.no_weight_on_the_future": ["mask-shows-the-next"],
    "inside.weights_follow_scores": ["softmax-over-queries", "one-head-takes-its-neighbours-keys"],
    "inside.scale": ["no-scale", "scale-by-width-not-its-root", "scores-times-root-d"],
    "heads.joined": ["heads-joined-without-transpose"],
    "heads.differ": ["second-head-copies-the-first"],
    "heads.projections": ["values-are-the-keys"],
    "rope.relative": ["rope-pairings-mixed", "rope-on-queries-alone", "rotation-of-keys-reversed"],
    "rope.same_positions": ["rope-keys-one-late"],
    "rope.values_still": ["rope-on-values"],
    "rope.along_sequence": ["model-turned-along-heads"],
    "rope.frequencies": ["rope-frequencies-reversed", "frequencies-fall-in-a-straight-line"],
    "rope.table": ["rope-angles-in-bfloat16", "rope-learned-frequencies"],
    "norm.formula": ["norm-multiplies-by-the-rms", "rms-norm-by-the-deviation"],
    "norm.epsilon": ["epsilon-outside-the-root"],
    "norm.gain": ["gain-one-for-all-channels", "sum-of-squares-for-their-mean"],
    "norm.per_position": ["norm-over-time"],
    "residual.identity": ["skip-carries-the-normalised", "no-residual-around-attention"],
    "residual.sum": ["feed-forward-added-to-the-blocks-input", "attention-output-lost"],
    "residual.branches": ["attention-added-twice"],
    "assembly.final_norm": ["no-final-norm"],
    "assembly.order": ["second-block-runs-first"],
    "feed_forward.position_wise": ["feed-forward-takes-the-one-before"],
    "feed_forward.nonlinear": ["swiglu-without-activation"],
    "feed_forward.branches": ["swiglu-without-gate", "swiglu-activates-the-other-branch"],
}
ELSEWHERE = {"heads.groups", "inside.output_is_the_mean", "inside.sinks"}
"""The reference has no groups by default and no sinks, and its output is that very product."""


@pytest.mark.parametrize(("check", "name"), pairs(CAUGHT_BY))
def test_a_mutant_fails_the_check(check, name):
    catches(check, name)


def test_every_check_that_looks_inside_has_a_fault():
    checks = set()
    for file in Path(properties.__file__).parent.glob("test_inside_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "check":
                checks.add(ast.literal_eval(node.value))
    assert checks == set(CAUGHT_BY) | ELSEWHERE
