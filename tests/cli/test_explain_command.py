"""``theodolite explain``: a check, a claim, a cause, in the words of the documentation."""

import re
import subprocess
import sys

import pytest

from theodolite.properties.explanations import explained, explanation_of
from theodolite.properties.ledger import load_ledger
from theodolite.properties.pages import causes_page, checks_page

ALL = {kind: tuple(names) for kind, names in explained().items()}


def headings(text):
    return [line for line in text.splitlines() if line and not line.startswith(" ")]


def test_a_check_is_told_with_an_example_its_remedy_and_what_may_differ(theodolite):
    outcome = theodolite("explain", "causality.gradient")
    assert outcome.status == 0
    said = " ".join(outcome.out.split())
    for part in (
        "What it does The gradient of position t",
        "What it means when it fails future-visible: A position attends to tokens",
        'scores.masked_fill(hidden.bool(), float("-inf"))',
        "What to do",
        "What may legitimately differ",
        "Claim ATT-4",
        "∂ logits_t / ∂ x_s = 0 for s > t",
    ):
        assert part in said
    assert re.search(r"test_causality\.py:\d+", said)


def test_a_claim_is_told_with_its_formula_its_checks_and_where_more_stands(theodolite):
    said = " ".join(theodolite("explain", "ROPE-4").out.split())
    for part in (
        "q'_t = R_t q_t, k'_t = R_t k_t, v'_t = v_t",
        "Why it must hold",
        "rope.values_still: Values do not turn with position.",
        "The article: RoPE",
        "arXiv:2104.09864",
    ):
        assert part in said


def test_a_cause_is_told_with_the_wrong_lines_and_the_right_ones(theodolite):
    lines = theodolite("explain", "mask-after-softmax").out.splitlines()
    wrong, right = (lines.index(f"    {line}") for line in (
        "weights = weights.masked_fill(hidden, 0.0)",
        'scores = scores.masked_fill(hidden, float("-inf"))',
    ))  # fmt: skip
    assert lines[wrong - 2] == "Wrong (mask-after-softmax)"
    assert lines[right - 1] == "Right"


def test_a_known_fault_is_told_as_a_form_of_its_cause(theodolite):
    said = " ".join(theodolite("explain", "rope-on-values").out.split())
    assert said.startswith("rope-on-values Values are turned as well. (rope)")
    assert "A form of value-rotated: Values turn with their position." in said


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("mask-after-sofmax", "mask-after-softmax"),
        ("causality.gradiant", "causality.gradient"),
        ("rope-4", "ROPE-4"),
    ],
)
def test_an_unknown_name_is_told_its_neighbours(theodolite, name, near):
    outcome = theodolite("explain", name)
    assert outcome.status == 2
    assert "Did you mean" in outcome.err
    assert near in outcome.err


def test_a_group_of_checks_is_told_its_checks(theodolite):
    outcome = theodolite("explain", "causality")
    assert outcome.status == 2
    assert "causality.gradient" in outcome.err


def test_json_has_what_the_terminal_has(theodolite):
    document = theodolite("explain", "inside.scale", "--json", "-").json
    assert document["kind"] == "check"
    assert [claim["id"] for claim in document["claims"]] == ["SCL-5"]
    assert document["claims"][0]["formula"] == "s_ts = q_t·k_s / √d_head"
    assert {"scale-missing", "scale-twice"} <= {cause["name"] for cause in document["fails"]}
    assert document["examples"][0]["wrong"] != document["examples"][0]["right"]


def test_it_is_told_without_torch():
    code = (
        "import sys; from theodolite.cli import main; main(['explain', 'inside.scale']); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ALL["check"])
def test_every_check_has_a_cause_an_example_and_a_remedy(name):
    found = explanation_of(name)
    assert found.does
    assert found.claims
    assert found.fails
    assert found.examples
    assert found.remedies
    assert found.alike


@pytest.mark.parametrize("name", [*ALL["claim"], *ALL["cause"], *ALL["known fault"]])
def test_every_name_can_be_explained(name):
    found = explanation_of(name)
    assert found.name == name or name in ALL["cause"]
    assert found.says


def test_a_claim_that_is_a_formula_has_one():
    of_mathematics = [claim for claim in load_ledger() if claim.formula]
    assert len(of_mathematics) > len(load_ledger()) / 2


def test_every_link_of_the_pages_leads_somewhere():
    pages = {"checks.md": checks_page(), "causes.md": causes_page()}
    anchors = {
        f"{name}#{anchor}"
        for name, text in pages.items()
        for anchor in re.findall(r'<a id="([^"]+)"></a>', text)
    } | {f"claims.md#{claim.id}" for claim in load_ledger()}
    for text in pages.values():
        assert set(re.findall(r"\]\(([a-z]+\.md#[^)]+)\)", text)) <= anchors
    assert {f"checks.md#{name}" for name in ALL["check"]} <= anchors
