"""What changed between two audits of a node, finding by finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.audit.finding import AuditReport, Finding

EventKind = Literal["appeared", "changed", "gone"]

Subject = tuple[str, str | None, str]
"""What a finding is about: a path, a file, a verdict."""


class FindingEvent(Struct, frozen=True):
    """A finding that appeared, has another value (``before`` is the finding until now), or is gone."""

    kind: EventKind
    finding: Finding
    before: Finding | None = None


class Known(Struct, frozen=True):
    """The findings that were told."""

    findings: Mapping[Subject, Finding] = {}


def events(
    known: Known, report: AuditReport, findings: Sequence[Finding]
) -> tuple[Known, tuple[FindingEvent, ...]]:
    """What is to be told of the ``findings`` of a report, and what is known then. What is on its way
    is told when it has settled; of what could not be read, nothing is."""
    now = {_subject(one): one for one in findings if one.verdict != "pending"}
    waiting = {(one.path, one.file) for one in findings if one.verdict == "pending"}
    unread = {(one.path, one.file or None) for one in report.unread}
    told: list[FindingEvent] = []
    kept: dict[Subject, Finding] = {}
    for subject, old in known.findings.items():
        new = now.pop(subject, None)
        place = old.path, old.file
        if new is None and (place in waiting or place in unread or (old.path, None) in unread):
            kept[subject] = old
        elif new is None:
            told.append(FindingEvent("gone", old))
        else:
            kept[subject] = new
            if (new.expected, new.found, new.severity) != (old.expected, old.found, old.severity):
                told.append(FindingEvent("changed", new, old))
    for subject, new in now.items():
        kept[subject] = new
        told.append(FindingEvent("appeared", new))
    return Known(kept), tuple(told)


def _subject(one: Finding) -> Subject:
    return one.path, one.file, one.verdict
