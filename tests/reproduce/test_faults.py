"""Each failure of a faulty model is written as a script that shows it, and passes once mended."""

from pathlib import Path

import pytest

from theodolite.properties.mutants import load_hosts, load_mutants
from theodolite.properties.mutants.hosts import TextHost
from theodolite.properties.mutants.registry import obstacle

HOSTS = {host.name: host for host in load_hosts() if isinstance(host, TextHost)}
MUTANTS = {each.name: each for each in load_mutants()}
INSIDE = ("inside", "heads", "rope", "norm", "feed_forward", "residual", "assembly", "batch")
SERVING = ("cache", "padding", "positions", "loss", "generation", "init", "tying")
SPARSE = ("experts", "groups", "feed_forward", "batch", "declared.feed_forward")
TRAINING = ("precision", "gradient", "backend.agree", "backend.modes")
KNOWN = {
    "by_hand": (INSIDE, TRAINING),
    "llama-text": (INSIDE, TRAINING),
    "gpt2-text": (TRAINING,),
    "serving": (SERVING, ("state",), TRAINING),
    "sparse": ((*SPARSE, "heads"),),
    "training": (TRAINING,),
}
"""Model → groups of checks, one of which is run on a fault that it is to catch."""

MANY_LINES = {"flex-without-its-scale"}
"""Faults of a way to attend that a script cannot turn to in a few lines."""

FEW = {
    ("by_hand", "mask-after-softmax"): ("causality.prefix", "inside.rows_sum_to_one"),
    ("by_hand", "rope-keys-one-late"): ("rope",),
    ("by_hand", "feed-forward-added-to-the-blocks-input"): ("residual.sum",),
    ("llama-text", "a-buffer-that-is-not-saved"): ("state.files",),
    ("serving", "new-keys-before-old"): ("cache.chunks",),
    ("serving", "loss-does-not-shift-in-the-model"): ("loss.own_logits",),
    ("serving", "top-k-leaves-a-small-chance"): ("generation.top_k",),
    ("serving", "padding-counted-as-positions"): ("padding.alone",),
    ("serving", "a-buffer-that-is-not-saved"): ("state",),
    ("by_hand", "keys-and-values-read-the-raw-stream"): ("norm.streams",),
    ("serving", "one-row-of-the-table-for-all"): ("positions.rows",),
    ("by_hand", "padding-mask-dropped"): ("arguments.heeded",),
    ("sparse", "one-expert-more"): SPARSE,
    ("sparse", "shares-not-divided-by-their-sum"): SPARSE,
    ("training", "angles-in-half-precision"): ("precision.late",),
    ("training", "checkpoint-draws-dropout-anew"): ("gradient.checkpointing",),
    ("training", "gain-gradient-averaged-over-rows"): ("gradient.slope",),
}
"""What every run shows, and the checks that are run for it; the slow suite has all."""

MORE = {
    ("by_hand", "fused-dropout-in-evaluation"): ("state.repeat",),
    ("by_hand", "routing-weights-across-tokens"): ("causality.prefix",),
    ("by_hand", "mean-square-squared"): ("norm.formula",),
    ("llama-text", "scale-by-model-width"): ("inside.scale",),
    ("llama-text", "swiglu-without-gate"): ("feed_forward.branches",),
    ("serving", "one-position-vector-for-all"): ("positions.lookup",),
    ("serving", "bias-made-a-mask-in-evaluation"): ("backend.modes",),
    ("by_hand", "epsilon-left-out"): ("norm.epsilon",),
    ("by_hand", "swiglu-adds-its-branches"): ("feed_forward.branches",),
    ("by_hand", "heads-averaged-not-joined"): ("heads.joined",),
    ("by_hand", "itself-hidden"): ("inside.itself",),
    ("by_hand", "activation-of-the-product"): ("feed_forward.form",),
    ("sparse", "shares-in-another-order"): SPARSE,
    ("sparse", "last-expert-never-called"): SPARSE,
    ("sparse", "second-head-copies-the-first"): SPARSE,
    ("sparse", "one-key-head-for-all"): SPARSE,
    ("training", "bias-on-all-scores"): ("precision.half",),
}
"""The same for the slow suite."""

ALONE = {
    "one-position-vector-for-all", "epsilon-left-out", "swiglu-adds-its-branches",
    "heads-averaged-not-joined", "keys-and-values-read-the-raw-stream", "itself-hidden",
    "padding-mask-dropped",
}  # fmt: skip
"""Faults of which one script is written, that of the one check."""


def select_for(host, mutant):
    """The checks that are run on a fault in the slow suite; None if no script shows it there."""
    for groups in KNOWN.get(host, ()):
        if any(check.startswith(tuple(groups)) for check in mutant.caught_by):
            return mutant.caught_by if groups is TRAINING else groups
    return () if host == "by_hand" else None


def cases():
    """Few of each kind for every run, and, marked slow, all with all that know of them."""
    for key, select in (FEW | MORE).items():
        yield pytest.param(
            *key, select, id="-".join(key), marks=[pytest.mark.slow] if key in MORE else []
        )
    for host in HOSTS.values():
        for name in host.changes.keys() & MUTANTS.keys():
            select = select_for(host.name, MUTANTS[name])
            if select is not None and MUTANTS[name].budget == "standard":
                name_of_all = f"{host.name}-{name}-all"
                yield pytest.param(host.name, name, select, id=name_of_all, marks=pytest.mark.slow)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("place", "name", "select"), sorted(cases(), key=lambda case: case.id))
def test_a_failure_is_shown_by_a_script(place, name, select, reproduce, shows_and_mends, tmp_path):
    if place not in HOSTS:
        pytest.skip("transformers is not installed")
    host = HOSTS[place]
    if reason := obstacle(MUTANTS[name], host):
        pytest.skip(reason)
    spec, change = host.write(tmp_path, name), host.changes[name]
    found = reproduce(spec, select=select, **host.options(name))
    if name in ALONE:
        assert list(found.scripts) == [*select]
    if name not in MANY_LINES:
        mended = host.text(**change.settings) if change.hunks else None  # or it is declared
        shows_and_mends(found, file_of(spec), mended)


@pytest.mark.parametrize(
    ("name", "check", "mended"),
    [
        ("swiglu-without-activation", "nonlinear", "F.relu(self.gate(x) + self.up(x))"),
        ("swiglu-activates-the-other-branch", "branches", "F.relu(self.gate(x)) * self.up(x)"),
    ],
)
def test_a_network_is_mended_by_a_relu_without_biases_too(
    name, check, mended, reproduce, shows_and_mends, tmp_path
):
    host = HOSTS["by_hand"]
    spec = host.write(tmp_path, name)
    found = reproduce(spec, select=(f"feed_forward.{check}",))
    source = host.text().replace("F.silu(self.gate(x)) * self.up(x)", mended)
    shows_and_mends(found, file_of(spec), source)


def file_of(spec):
    return Path(spec.rpartition(":")[0])
