"""A pass says that enough was judged."""

import subprocess
import sys
from dataclasses import fields

import pytest

from theodolite.arguments import Parser
from theodolite.command_line import Audit
from theodolite.findings import Findings
from theodolite.journal import Reader, Writer
from theodolite.report import Check, Report
from theodolite.subject_arguments import add_subject_arguments, subject_of


def checks(**outcomes):
    """Checks by id, with "__" for the point; a text other than an outcome prevents a check."""
    made = []
    for name, outcome in outcomes.items():
        group, _, rest = name.partition("__")
        known = outcome in ("passed", "failed", "error", "expected_failure")
        made.append(
            Check(
                f"{group}.{rest}",
                (),
                "shape",
                outcome if known else "not_applicable",
                "" if known else outcome,
            )
        )
    return tuple(made)


CORE = {"shape__runs": "passed", "logits__finite": "passed", "causality__perturb": "passed"}


@pytest.mark.parametrize(
    ("outcomes", "verdict", "says"),
    [
        (CORE, "pass", None),
        ({**CORE, "cache__steps": "no cache was found"}, "pass", None),
        ({**CORE, "batch__order": "error"}, "incomplete", "1 of 4 checks could not be carried out"),
        ({**CORE, "batch__order": "failed", "state__used": "error"}, "fail", "could not be"),
        ({"shape__runs": "error", "logits__finite": "error"}, "error", "2 of 2"),
        (
            {**CORE, "causality__perturb": "the model takes one token alone"},
            "incomplete",
            "Nothing of causality could be judged: the model takes one token alone.",
        ),
        (
            {**CORE, **{f"batch__{n}": "not judged: it hung" for n in range(4)}},
            "incomplete",
            "Only 3 of the 7 checks that apply could be judged; most often: it hung.",
        ),
    ],
)
def test_too_little_is_never_a_pass(outcomes, verdict, says):
    report = Report("it", checks(**outcomes))
    assert report.verdict == verdict
    assert says is None or says in report.incomplete
    assert report.to_dict().get("incomplete") == report.incomplete


def test_an_audit_that_was_cut_short_is_incomplete():
    report = Report("it", checks(**CORE), cut_short="The audit was interrupted (SIGTERM).")
    assert report.verdict == "incomplete"


def test_a_journal_keeps_whole_lines_whatever_becomes_of_its_writer(tmp_path):
    file = tmp_path / "journal"
    writer, reader = Writer(file), Reader(file)
    writer.write({"event": "stage", "name": "anatomy"})
    with file.open("ab") as half:
        half.write(b'{"event": "fini')
    assert [event["event"] for event in reader.events()] == ["stage"]
    writer.close()
    writer.write({"event": "lost"})  # a subject has closed the file
    assert file.read_bytes().endswith(b'{"event": "lost"}\n')


def test_what_was_running_when_a_process_ended_is_an_error():
    found = Findings(Audit("model.py:Model"))
    item = {"check": "shape.runs", "claims": ["AUD-11"], "component": "shape", "level": "fault"}
    found.take({"event": "planned", "items": [{"id": "a", "view": None, **item}]})
    found.take({"event": "began", "item": "a"})
    assert found.running == "a"
    found.take({"event": "lost", "item": "a", "says": "The audit's process was ended by SIGSEGV."})
    (check,) = found.checks({})
    assert (check.outcome, check.claims) == ("error", ("AUD-11",))
    assert "SIGSEGV" in check.message


def test_the_supervisor_never_imports_torch():
    code = (
        "import sys, theodolite.cli, theodolite.audit_command, theodolite.progress, "
        "theodolite.terminal, theodolite.formats.junit; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_all_that_names_a_subject_is_part_of_the_audit_that_is_handed_on():
    known = {field.name for field in fields(Audit)}
    parser = Parser()
    add_subject_arguments(parser)
    named = subject_of(parser.parse_args(["model.py:GPT", "--weights", "weights.pt"]))
    assert set(named) <= known
    assert "--weights weights.pt" in Audit(**named).again()
