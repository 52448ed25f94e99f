"""A fault is written once and put into every host; the audit catches it there and names it."""

import pytest

import theodolite
from theodolite.properties.mutants import Patch, hosts, load_mutants, pairs

MUTANTS = {each.name: each for each in load_mutants()}
HOSTS = {host.name: host for host in hosts()}
ANY_HOST = pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)

FEW = [
    ("mask-transposed", "nano"),
    ("no-scale", "llama"),
    ("softmax-over-queries", "gpt2"),
    ("groups-tiled", "mixtral"),
    ("rope-keys-one-late", "grouped"),
    ("cached-values-moved-on", "grouped"),
    ("blocks-in-a-list", "nano"),
    ("router-centres-over-tokens", "mixture"),
    ("norm-over-time-in-the-model", "gpt2"),
    ("heads-in-reverse-order", "nano"),
    ("scale-on-the-queries", "llama"),
    ("scores-from-keys-to-queries", "grouped"),
    ("softmax-off-by-one", "gpt2"),
]
UNSEEN = {
    "swiglu-adds-its-branches": "a sum of two branches is curved, and every matrix takes part",
    "epsilon-left-out": "no vector of zeros comes up",
    "heads-averaged-not-joined": "what W_O gets is not the heads, as where they are gated",
}
UNNAMED = {
    "router-by-place": "it shows as rows that depend on their batch",
    "sub-layers-in-parallel": "whether they are is declared together with the norms",
    "softmax-of-the-softmax": "all that is seen of it is what generation draws",
}
"""What an audit cannot see yet, or sees and puts down to another part, and why."""


PAIRS = [
    pytest.param(
        mutant.name,
        host.name,
        id=f"{mutant.name}-in-{host.name}",
        marks=[
            *([] if (mutant.name, host.name) in FEW else [pytest.mark.slow]),
            *(
                pytest.mark.xfail(strict=False, reason=reason)
                for name, reason in UNSEEN.items()
                if name == mutant.name
            ),
        ],
    )
    for mutant, host in pairs()
    if mutant.seam is not None
]


CALLED_BY = {
    "padding": "padding.hides",
    "extend": "cache.steps",
    "loss": "loss.own_logits",
    "crop": "generation.prompt",
    "generate": "generation.prompt",
    "distribution": "generation.temperature",
}
"""Checks that pass the seams which a plain forward does not."""

ROUNDING = 1e-5
"""Between logits below 1, in float32, of attention that is fused and of the same written out.

Each of 3 layers takes a product over 12 channels, its scale, a softmax and a mean over 13 keys: 126
roundings in a row. Where all of them go apart, 2·126·2⁻²⁴ = 1.5e-5; this is less than that.
"""


@ANY_HOST
def test_a_host_without_a_fault_passes_the_audit(host):
    report = theodolite.audit(host.subject(), strict=True)
    assert report.verdict == "pass", [c for c in report.checks if c.outcome != "passed"]


@ANY_HOST
def test_a_host_calls_each_of_its_seams_and_is_not_changed_by_looking(host):
    sound = host.subject()
    ids = sound.random_ids(2)
    logits = sound.run(sound.model, ids)
    for seam in host.seams:
        calls, patch = [], Patch()

        def change(original, *arguments, seam=seam, calls=calls):
            calls.append(seam)
            return original(*arguments[1:] if seam == "forward" else arguments)

        try:
            host.wrap(seam, change, patch)
            subject = host.subject()
            assert (subject.run(subject.model, ids) - logits).abs().max() < ROUNDING, seam
            if seam in CALLED_BY:
                report = theodolite.audit(subject, select=CALLED_BY[seam], strict=True)
                assert report.verdict == "pass", report.checks
        finally:
            patch.undo()
        assert calls, f"{host.name} never calls {seam}"


def test_a_host_says_which_seams_it_has():
    with pytest.raises(LookupError, match="has no seam 'nowhere'; it has scale"):
        HOSTS["nano"].wrap("nowhere", print, Patch())


@pytest.mark.parametrize(("name", "host"), PAIRS)
def test_an_audit_catches_a_fault_in_a_host_and_passes_what_is_none(name, host):
    mutant = MUTANTS[name]
    with mutant.applied(HOSTS[host]):
        report = theodolite.audit(HOSTS[host].subject(), strict=True)
    if mutant.equivalent:
        assert report.verdict == "pass", [c for c in report.checks if c.outcome == "failed"]
    else:
        failed = [check for check in report.checks if check.outcome == "failed"]
        assert failed, mutant.fault
        if name not in UNNAMED:
            assert mutant.component in {check.component for check in failed}, failed
