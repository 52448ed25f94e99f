"""Each failure of a faulty model is written as a script that shows it, and passes once mended."""

from pathlib import Path

import faults
import inside_faults
import pytest
import serving_faults
from showing import shows_and_mends

MODELS = Path(faults.__file__).parent / "models"
INSIDE = ("inside", "heads", "rope", "norm", "feed_forward", "residual", "assembly", "batch")
SERVING = ("cache", "padding", "positions", "loss", "generation", "init", "tying")
QUICK = {
    "faults": {
        "M16": ("causality.prefix", "inside.rows_sum_to_one"),
        "O01": ("state.repeat",),
        "E02": ("causality.prefix",),
    },
    "inside": {"keys-one-late": ("rope",), "N07": ("norm.formula",), "X01": ("residual.sum",)},
    "llama": {"C01": ("inside.scale",), "F03": ("feed_forward.branches",)},
    "serving": {
        "K01": ("cache.chunks",),
        "L02": ("loss.own_logits",),
        "D05": ("generation.top_k",),
        "P02": ("padding.alone",),
    },
}
"""A few of each kind for the ordinary suite, and the checks that are run on them."""

ALL_INSIDE = [
    *inside_faults.ATTENTION, *inside_faults.ROPE, *inside_faults.NORMS, *inside_faults.RESIDUAL,
    *inside_faults.FEED_FORWARD, *inside_faults.SINKS,
]  # fmt: skip


def chosen(kind, known):
    """Every fault of a kind: a few with few checks, and, marked slow, all with all checks."""
    quick = QUICK[kind]
    few = [pytest.param(f, quick[f.id], id=f"{f.id}-few") for f in known if f.id in quick]
    return few + [pytest.param(f, None, id=f.id, marks=pytest.mark.slow) for f in known]


@pytest.mark.parametrize(("fault", "select"), chosen("faults", faults.FAULTS))
def test_faults_of_a_hand_written_model(fault, select, reproduce, tmp_path):
    spec = fault.write(tmp_path)
    found = reproduce(spec, select=select or (), settings=fault.settings)
    shows_and_mends(found, tmp_path / "by_hand.py", faults.SOURCE)


@pytest.mark.parametrize(
    ("fault", "select"), chosen("inside", [f for f in ALL_INSIDE if f.by_hand])
)
def test_faults_inside_of_a_hand_written_model(fault, select, reproduce, tmp_path):
    found = reproduce(fault.write(tmp_path, "by hand"), select=select or INSIDE)
    shows_and_mends(found, tmp_path / "faulty_model.py", faults.SOURCE)


@pytest.mark.parametrize(("fault", "select"), chosen("llama", [f for f in ALL_INSIDE if f.llama]))
def test_faults_inside_of_a_hugging_face_llama(fault, select, reproduce, tmp_path):
    pytest.importorskip("transformers")
    found = reproduce(fault.write(tmp_path, "llama"), select=select or INSIDE)
    shows_and_mends(found, tmp_path / "faulty_model.py", inside_faults.llama_source())


@pytest.mark.parametrize(
    ("fault", "check", "mended"),
    [
        ("no-activation", "nonlinear", "self.down(F.relu(self.gate(x) + self.up(x)))"),
        ("F01", "branches", "self.down(F.relu(self.gate(x)) * self.up(x))"),
    ],
)
def test_a_network_is_mended_by_a_relu_without_biases_too(
    fault, check, mended, reproduce, tmp_path
):
    known = next(each for each in inside_faults.FEED_FORWARD if each.id == fault)
    spec = known.write(tmp_path, "by hand")
    found = reproduce(spec, select=(f"feed_forward.{check}",))
    source = faults.SOURCE.replace(inside_faults.GATED, f"return {mended}")
    shows_and_mends(found, tmp_path / "faulty_model.py", source)


@pytest.mark.parametrize(("fault", "select"), chosen("serving", serving_faults.FAULTS))
def test_faults_between_training_and_serving(fault, select, reproduce, tmp_path):
    spec = fault.write(tmp_path)
    found = reproduce(
        spec, select=select or SERVING, settings=fault.settings, declare=fault.declare
    )
    mended = serving_faults.SOURCE if fault.changes else None  # else a declaration is wrong
    shows_and_mends(found, tmp_path / "serving.py", mended)
