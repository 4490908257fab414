"""Findings of lint as documents: ``kind: Lint`` of ``qoslet/v1``, SARIF 2.1.0 and JUnit.

Source: OASIS SARIF 2.1.0; the JUnit schema that Jenkins and GitLab read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qoslet.core.lint.rule import rules
from qoslet.render.documents import API_VERSION, Document
from qoslet.render.documents.sarif import LEVELS, sarif_log
from qoslet.render.terminal import printable

if TYPE_CHECKING:
    from qoslet.core.lint.lint import LintFinding, LintReport
    from qoslet.core.problem import Severity


def lint_document(report: LintReport) -> Document:
    """The document."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Lint",
        "findings": [_row(one) for one in report.findings],
    }


def _row(one: LintFinding) -> Document:
    return {
        "id": one.id,
        "severity": one.severity,
        "where": one.where,
        "pod": None if one.pod is None else one.pod.key,
        "container": one.container,
        "field": one.field,
        "message": one.message,
        "hint": one.hint,
        "source": one.source,
        "suppressed": one.suppressed,
    }


def sarif_document(report: LintReport, line_of: Callable[[str, str, str], int | None]) -> Document:
    """The findings as a SARIF log, with all rules. ``line_of`` knows the line of a field, by file and
    name of its object."""
    described: list[Document] = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.why},
            "help": {"text": f"{rule.fix} Source: {rule.source}"},
            "defaultConfiguration": {"level": LEVELS[rule.severity]},
        }
        for rule in rules().values()
    ]
    return sarif_log("lint", described, [_result(one, line_of) for one in report.findings])


def _result(one: LintFinding, line_of: Callable[[str, str, str], int | None]) -> Document:
    file, place = file_of(one), printable(one.where)
    name = "" if one.pod is None else one.pod.where.rpartition(": ")[2]
    location: Document = {
        "logicalLocations": [
            {"fullyQualifiedName": place, "name": printable(one.field), "kind": "resource"}
        ]
    }
    if file:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(file)},
            "region": {"startLine": line_of(file, name, one.field) or 1},
        }
    row: Document = {
        "ruleId": one.id,
        "level": LEVELS[one.severity],
        "message": {"text": printable(f"{place}: {one.message}. {one.hint}")},
        "locations": [location],
        "partialFingerprints": {"qoslet/v1": f"{one.id}:{place}"},
    }
    if one.suppressed is not None:
        text = printable(one.suppressed)
        row["suppressions"] = [{"kind": "inSource", "justification": text}]
    return row


def _uri(file: str) -> str:
    """A path as the relative reference that SARIF wants."""
    # imported for this one format
    from urllib.parse import quote

    # a colon in the first part would end a scheme
    return quote(file, safe="/", errors="surrogatepass")


def file_of(finding: LintFinding) -> str:
    """The file that a finding is in; empty for standard input. Of a node that several files describe,
    it is the first."""
    if finding.pod is None:
        name = finding.where.partition(": ")[0].partition(", ")[0]
    else:
        # what stands behind the last colon is the object, or its number; a name may have colons
        name = finding.pod.where.rpartition(": ")[0].partition(": document ")[0]
    return "" if name in ("stdin", "-") else name


def junit_document(report: LintReport, fail_on: Severity) -> bytes:
    """The findings as a JUnit report: a test case each. One from ``fail_on`` on is a failure, so that
    the report fails where the exit code does; a lesser or suppressed one is skipped."""
    # imported for this one format
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    failing = [one.fails(fail_on) for one in report.findings]
    suites = Element("testsuites")
    suite = SubElement(
        suites,
        "testsuite",
        name="qoslet lint",
        tests=str(max(1, len(report.findings))),
        failures=str(sum(failing)),
        errors="0",
        skipped=str(len(failing) - sum(failing)),
    )
    for one, fails in zip(report.findings, failing, strict=True):
        case = SubElement(suite, "testcase", classname=one.id, name=_clean(one.where))
        if fails:
            failure = SubElement(case, "failure", message=_clean(one.message), type=one.severity)
            failure.text = _clean(one.hint)
        else:
            why = one.suppressed or f"{one.severity}: {one.message}. {one.hint}"
            SubElement(case, "skipped", message=_clean(why))
    if not report.findings:
        SubElement(suite, "testcase", classname="qoslet", name="no finding")
    indent(suites)
    text: bytes = tostring(suites, "utf-8")
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + text + b"\n"


def _clean(text: str) -> str:
    """Text that XML may hold."""
    return printable(text)
