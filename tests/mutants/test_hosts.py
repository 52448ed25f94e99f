"""Hosts are sound, and each calls the seams into which faults are put."""

import pytest

import theodolite
from theodolite.properties.mutants import Patch, load_hosts

HOSTS = {host.name: host for host in load_hosts()}
ANY_HOST = pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)

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


OFTEN = ("reference", "nano", "llama", "serving")
"""Hosts that every run audits whole; their faults are tried in all, and the slow suite has them."""


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(host, id=name, marks=[] if name in OFTEN else [pytest.mark.slow])
        for name, host in HOSTS.items()
    ],
)
def test_a_host_without_a_fault_passes_the_audit(host):
    report = theodolite.audit(host.subject(), strict=True)
    assert report.verdict == "pass", [c for c in report.checks if c.outcome != "passed"]


@ANY_HOST
def test_a_host_calls_each_of_its_seams_and_is_not_changed_by_looking(host):
    sound = host.subject()
    ids = sound.random_ids(2)
    logits = sound.run(sound.model, ids)
    for seam in getattr(host, "seams", ()):
        calls, patch = [], Patch()

        def change(original, *arguments, seam=seam, calls=calls):
            calls.append(seam)
            return original(*arguments[1:] if seam == "forward" else arguments)

        try:
            host.wrap(seam, change, patch)
            subject = host.subject()
            assert (subject.run(subject.model, ids) - logits).abs().max() < ROUNDING, seam
            if seam in CALLED_BY:
                report = theodolite.audit(subject, select=CALLED_BY[seam])
                assert report.verdict == "pass", report.checks
        finally:
            patch.undo()
        assert calls, f"{host.name} never calls {seam}"


def test_a_host_says_which_seams_it_has():
    with pytest.raises(LookupError, match="has no seam 'nowhere'; it has scale"):
        HOSTS["nano"].wrap("nowhere", print, Patch())
