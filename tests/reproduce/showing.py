"""What every script must do: fail on the faulty model, and end well on the mended one."""

import re

LONGEST = 32
"""Lines of a script that are not empty."""

WITHOUT = {
    "inside.sinks",  # what a sink weighs takes more than a few lines to read off
    "declared.feed_forward",  # so are width and activation of a network
    "parameters.formula",  # it needs the anatomy
    "padding.cache",  # where a mask is refused in one form and taken in another
}
"""Checks of these faults whose failures may be without a script, and why."""


def shows_and_mends(found, file, mended):
    """Every script fails on the faulty file, and ends well on the correct one; none is long."""
    missing = {
        check: each["no_script"]
        for check, each in found.failed.items()
        if check not in found.scripts
    }
    assert set(missing) <= WITHOUT, missing
    assert all(missing.values())
    for script in found.scripts.values():
        text = script.read_text(encoding="utf-8")
        assert len([line for line in text.splitlines() if line.strip()]) <= LONGEST, text
        assert not re.search(r"^\s*(from|import) theodolite", text, re.MULTILINE)
    for check, (status, said) in found.outcomes().items():
        assert status == 1, check
        assert said.startswith("AssertionError"), f"{check}: {said}"
    if mended is not None:
        file.write_text(mended, encoding="utf-8")
        assert {check: said for check, (_, said) in found.outcomes().items() if said} == {}
