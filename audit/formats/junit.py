"""A report as JUnit XML, which CI servers read."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from theodolite.explanation import as_text
from theodolite.report import Report, is_hazard

_TAGS = {
    "failed": "failure",
    "error": "error",
    "not_applicable": "skipped",
    "expected_failure": "skipped",
}


def write(report: Report) -> str:
    """One test suite for the subject, one test case for each check."""
    summary = report.summary
    suite = ET.Element(
        "testsuite",
        name=f"theodolite {report.subject}",
        tests=str(summary["planned"]),
        failures=str(summary["failed"]),
        errors=str(summary["errors"] + (report.error is not None)),
        skipped=str(
            summary["not_applicable"]
            + summary["expected_failures"]
            + (0 if report.strict else summary["hazards"])
        ),
        time=f"{report.seconds:.3f}",
    )
    for check in report.checks:
        group, _, name = check.id.partition(".")
        case = ET.SubElement(
            suite, "testcase", classname=group, name=name, time=f"{check.seconds:.3f}"
        )
        if is_hazard(check) and not report.strict:
            ET.SubElement(case, "skipped", message=f"hazard: {check.message}", type=check.component)
        elif check.outcome in _TAGS:
            entry = ET.SubElement(
                case, _TAGS[check.outcome], message=check.message, type=check.component
            )
            if check.outcome in ("failed", "error"):
                entry.text = as_text(check, report)
    if report.error is not None:
        case = ET.SubElement(suite, "testcase", classname="subject", name="load")
        ET.SubElement(case, "error", message=report.error)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)
