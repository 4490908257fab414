"""An audit as documents: ``kind: Audit`` of ``qoslet/v1``, SARIF 2.1.0 and JUnit.

Source: OASIS SARIF 2.1.0; the JUnit schema that Jenkins and GitLab read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from qoslet.core.api.schema import encode_json
from qoslet.core.audit.finding import MEANINGS
from qoslet.render.documents import API_VERSION, Document
from qoslet.render.documents.plan import node_block
from qoslet.render.documents.sarif import LEVELS, sarif_log
from qoslet.render.documents.timestamps import moment
from qoslet.render.terminal import printable

if TYPE_CHECKING:
    from qoslet.core.audit.events import FindingEvent
    from qoslet.core.audit.finding import AuditReport, Finding
    from qoslet.core.audit.repairs import NotRepaired
    from qoslet.core.reconcile.steps import Outcome
    from qoslet.core.resources.cgroup_tree import Plan


class Repair(Protocol):
    """What ``audit --fix`` did, or would do; ``root`` names its journal."""

    @property
    def root(self) -> str:
        """The cgroup root that ``release`` takes."""

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """The steps that were tried."""

    @property
    def left(self) -> Sequence[NotRepaired]:
        """The findings that are for others."""

    @property
    def waiting(self) -> Sequence[str]:
        """Limits that wait for usage to fall."""

    @property
    def commands(self) -> Sequence[str]:
        """The shell lines of a dry run."""


def repair_block(done: Repair, dry_run: bool) -> Document:
    """What was repaired, as ``repair`` of the document."""
    return {
        "root": done.root,
        "dryRun": dry_run,
        "steps": [
            {
                "path": one.step.path,
                "file": one.step.file,
                "value": one.step.value,
                "error": one.error,
            }
            for one in done.outcomes
        ],
        "left": [
            {
                "verdict": one.finding.verdict,
                "path": one.finding.path,
                "file": one.finding.file,
                "reason": one.reason,
                "fix": one.finding.fix,
            }
            for one in done.left
        ],
        "waiting": list(done.waiting),
        "commands": list(done.commands),
    }


def audit_document(plan: Plan, report: AuditReport, repair: Document | None = None) -> Document:
    """The document; ``repair`` is what was repaired before."""
    more = {} if repair is None else {"repair": repair}
    return {
        "apiVersion": API_VERSION,
        "kind": "Audit",
        "node": node_block(plan),
        "compared": report.compared,
        "cgroups": report.cgroups,
        "unread": [
            {"path": one.path, "file": one.file or None, "error": one.error}
            for one in report.unread
        ],
        "findings": [finding_row(one) for one in report.findings],
        "notes": list(report.notes),
        **more,
    }


def finding_row(one: Finding) -> Document:
    """A finding as an object."""
    pod = None if one.pod is None else {"namespace": one.pod[0], "name": one.pod[1]}
    return {
        "verdict": one.verdict,
        "severity": one.severity,
        "name": one.name,
        "path": one.path,
        "unit": one.unit,
        "pod": pod,
        "container": one.container,
        "file": one.file,
        "expected": one.expected,
        "found": one.found,
        "property": one.property_text,
        "propertyName": one.property_name,
        "writer": one.writer,
        "mayHave": list(one.may_have),
        "resetBy": one.reset_by,
        "rule": one.rule,
        "because": one.because,
        "source": one.source,
        "fix": one.fix,
        "message": one.message,
        "hint": one.hint,
    }


def event_line(at: float, event: FindingEvent) -> bytes:
    """An event of ``--watch`` as one line of JSON; ``at`` is in wall-clock seconds."""
    before = event.before
    document = {
        "apiVersion": API_VERSION,
        "kind": "AuditEvent",
        "time": moment(at),
        "event": event.kind,
        "finding": finding_row(event.finding),
        "before": None if before is None else finding_row(before),
    }
    return encode_json(document) + b"\n"


def sarif_document(report: AuditReport) -> Document:
    """The findings as a SARIF log; cgroups are logical locations, as they are no source files."""
    rules: list[Document] = [
        {"id": verdict, "shortDescription": {"text": meaning}}
        for verdict, meaning in MEANINGS.items()
    ]
    return sarif_log("audit", rules, [_result(one) for one in report.findings])


def _result(one: Finding) -> Document:
    place = f"{one.path}/{one.file}" if one.file else one.path
    text = printable(". ".join(filter(None, (one.message, one.hint))))
    return {
        "ruleId": one.verdict,
        "level": LEVELS[one.severity],
        "message": {"text": text},
        "locations": [
            {
                "logicalLocations": [
                    {
                        "fullyQualifiedName": printable(place),
                        "name": printable(one.name),
                        "kind": "resource",
                    }
                ]
            }
        ],
        "partialFingerprints": {"qoslet/v1": f"{one.verdict}:{place}"},
    }


def junit_document(report: AuditReport) -> bytes:
    """The findings as a JUnit report: a test case each, and one for all that is as planned."""
    # imported for this one format
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    failing = [one for one in report.findings if one.counts]
    cases = len(report.findings) + 1
    suites = Element("testsuites")
    suite = SubElement(
        suites,
        "testsuite",
        name="qoslet audit",
        tests=str(cases),
        failures=str(len(failing) + (report.compared == 0)),
        errors="0",
        skipped=str(len(report.findings) - len(failing)),
    )
    whole = f"{report.compared} values compared"
    case = SubElement(suite, "testcase", classname="qoslet.audit", name=whole)
    if report.compared == 0:
        SubElement(case, "failure", type="unread", message="no value could be compared")
    for one in report.findings:
        place = f"{one.path}/{one.file}" if one.file else one.path
        name = printable(place)
        case = SubElement(suite, "testcase", classname=f"qoslet.audit.{one.verdict}", name=name)
        kind = "failure" if one.counts else "skipped"
        entry = SubElement(case, kind, message=printable(one.message))
        if one.counts:
            entry.set("type", one.verdict)
            entry.text = "\n".join(
                printable(text) for text in (one.message, one.hint, one.fix or "") if text
            )
    indent(suites)
    data: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
    return data + b"\n"
