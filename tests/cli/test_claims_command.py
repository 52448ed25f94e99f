"""``theodolite claims``: the ledger, a claim, a check; no word of it is cut."""

import re
from pathlib import Path

import pytest


def words_of(text):
    return set(re.findall(r"[A-Za-z][A-Za-z0-9_.-]*", text))


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize(
    "command",
    [["claims"], ["claims", "ROPE"], ["audit", "--list"], ["mutants", "--list"]],
    ids=" ".join,
)
def test_no_width_cuts_a_word(theodolite, command, width):
    wide = theodolite(*command, COLUMNS="5000").out
    shown = theodolite(*command, COLUMNS=str(width)).out
    assert all(len(line) <= width or " " not in line.strip() for line in shown.splitlines())
    assert shown.split() == wide.split()


def test_nothing_says_how_wide_so_lines_have_100_columns(process):
    lines = process("claims", COLUMNS="").out.splitlines()
    assert 80 < max(map(len, lines)) <= 100


def test_a_check_shows_where_it_stands_and_what_proves_it(theodolite):
    outcome = theodolite("claims", "cache.steps")
    assert outcome.status == 0
    said = " ".join(outcome.out.split())
    assert re.search(r"test_cache[a-z_]*\.py:\d+ test_", said)
    for part in ("(cache)", "proved by ", "has caught ", "script from "):
        assert part in said
    for claim in theodolite("claims", "cache.steps", "--json", "-").json["checks"][0]["claims"]:
        assert f"{claim['id']}: " in said


def test_a_group_shows_its_checks(theodolite):
    checks = theodolite("claims", "cache", "--json", "-").json["checks"]
    assert len(checks) > 2
    assert {check["id"].partition(".")[0] for check in checks} == {"cache"}
    for check in checks:
        for each in check["properties"]:
            file, _, line = each["place"].rpartition(":")
            text = Path(file).read_text(encoding="utf-8").splitlines()
            assert f"def {each['name'].rpartition('::')[2]}(" in text[int(line) - 1]


def test_a_claim_is_shown_alone(theodolite):
    outcome = theodolite("claims", "ROPE-4")
    assert outcome.status == 0
    assert outcome.out.startswith("ROPE-4")
    assert "ROPE-5" not in outcome.out
