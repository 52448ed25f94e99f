"""The ledger, the properties and the mutants name each other, both ways."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from theodolite import properties
from theodolite.properties.ledger import (
    SCOPES,
    STATES,
    chapter_titles,
    claims_table,
    load_ledger,
    render_markdown,
)
from theodolite.properties.mutants import load_mutants
from theodolite.properties.source import find_mutants, find_properties

LEDGER = load_ledger()
TABLE = {each["id"]: each for each in claims_table()["claims"]}
DOCUMENT = Path(__file__).parent.parent / "docs" / "claims.md"


def test_ids_are_unique_and_grouped_by_chapter():
    ids = [claim.id for claim in LEDGER]
    assert len(set(ids)) == len(ids)
    for chapter in chapter_titles():
        numbers = [int(each.partition("-")[2]) for each in ids if each.startswith(chapter + "-")]
        assert numbers == list(range(1, len(numbers) + 1)), chapter
    assert {claim.chapter for claim in LEDGER} == set(chapter_titles())


@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: claim.id)
def test_a_claim_is_a_sentence_with_a_state(claim):
    assert claim.statement.endswith(".")
    assert "\n" not in claim.statement
    assert claim.state in STATES
    assert set(claim.scope) <= set(SCOPES)
    assert (claim.state == "checked") == (not claim.reason)


@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: claim.id)
def test_a_claim_says_in_one_or_two_sentences_why_it_must_hold(claim):
    assert claim.why.endswith(".")
    assert 1 <= len(re.findall(r"[.!?](?=\s|$)", claim.why)) <= 2
    assert 80 <= len(claim.why) <= 300
    assert claim.why != claim.statement
    assert TABLE[claim.id]["why"] == claim.why


def test_no_two_claims_have_the_same_reason():
    assert len({claim.why for claim in LEDGER}) == len(LEDGER)


@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: claim.id)
def test_a_claim_is_checked_and_has_a_mutant_or_says_why_not(claim):
    if claim.state == "not_demonstrated":
        assert len(claim.reason) > 40
        return
    assert TABLE[claim.id]["properties"], f"no property names {claim.id}"
    assert TABLE[claim.id]["mutants"], f"no mutant breaks {claim.id}"


def test_no_check_and_no_mutant_names_an_unknown_claim():
    known = {claim.id for claim in LEDGER}
    for each in [*find_properties(), *find_mutants()]:
        assert set(each.claims) <= known, each.name


def test_what_is_read_from_source_is_what_is_registered():
    read = {
        (each.name, each.claims, each.component, each.fault, each.source, each.equivalent)
        for each in find_mutants()
    }
    assert read == {
        (each.name, each.claims, each.component, each.fault, each.source, each.equivalent)
        for each in load_mutants()
    }


def test_every_collected_check_is_read_from_source():
    folder = Path(properties.__file__).parent
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    command += ["-c", "/dev/null", "--rootdir", str(folder), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    collected = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert collected == {each.name for each in find_properties()}


def test_the_table_is_there_without_torch():
    code = (
        "import sys; from theodolite.properties.ledger import claims_table; claims_table();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_document_is_current():
    assert DOCUMENT.read_text(encoding="utf-8") == render_markdown(), (
        "docs/claims.md is stale: run `tox -e docs`"
    )
