"""What ``audit --watch`` tells: findings that appear, change and go, once they have settled."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.audit.events import Known, events
from qoslet.core.audit.finding import AuditReport, Finding, Unread

DRIFT = Finding(
    verdict="drift", name="/kubepods", path="/kubepods", file="pids.max", expected="9",
    found="7", message="m",
)  # fmt: skip


def told(
    known: Known, *findings: Finding, unread: tuple[Unread, ...] = ()
) -> tuple[Known, list[tuple[str, str | None]]]:
    after, happened = events(known, AuditReport(1, 1, findings, unread), findings)
    return after, [(one.kind, one.finding.found) for one in happened]


def test_a_finding_appears_changes_and_goes_once() -> None:
    known, happened = told(Known(), DRIFT)
    assert happened == [("appeared", "7")]
    known, happened = told(known, replace(DRIFT, message="other words"))
    assert happened == []
    known, happened = told(known, replace(DRIFT, found="8"))
    assert happened == [("changed", "8")]
    known, happened = told(known)
    assert happened == [("gone", "8")]
    assert told(known)[1] == []


def test_what_is_on_its_way_is_not_told_yet() -> None:
    pending = replace(DRIFT, verdict="pending", severity="info")
    known, happened = told(Known(), pending)
    assert happened == []
    known, _ = told(known, DRIFT)
    known, happened = told(known, pending)
    assert happened == [], "it may come back"
    assert told(known, DRIFT)[1] == []
    assert told(known)[1] == [("gone", "7")]


def test_what_cannot_be_read_is_not_gone() -> None:
    known, _ = told(Known(), DRIFT)
    for unread in (
        Unread("/kubepods", "pids.max", "no right"),
        Unread("/kubepods", "", "no right"),
    ):
        assert told(known, unread=(unread,))[1] == []
    assert told(known, unread=(Unread("/kubepods", "cpu.max", "no right"),))[1] == [("gone", "7")]
