"""Decides when to audit the node: soon after something happened in it, and at intervals."""

from __future__ import annotations

from qoslet.agent.guest.ports import Auditor
from qoslet.agent.ports import Clock
from qoslet.core.audit.events import FindingEvent, Known, events
from qoslet.core.audit.finding import AuditReport, Finding
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import QosletError

AGAIN_SECONDS = 3.0
"""How long after a look with findings the second look comes: a change that is under way is no finding. A
kubelet takes a second or two to report that a container was started again. Source:
pkg/kubelet/kubelet.go genericPlegRelistPeriod."""
LEAST_SECONDS = 1.0
"""The shortest time between two audits."""
SHARE, WOKEN_SHARE = 0.003, 0.05
"""The part of the time that audits may take: without events, and with them."""


class NodeAuditor:
    """One for each guest. Without events, audits are ``interval`` seconds apart, or more if they take
    long."""

    def __init__(self, auditor: Auditor, clock: Clock, interval: float) -> None:
        self._auditor = auditor
        self._clock = clock
        self._interval = interval
        self._known = Known()
        self._first: AuditReport | None = None
        self._report: AuditReport | None = None
        self._at = self._woken_at = float("-inf")
        self._error = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the last audit."""
        return () if self._report is None else self._report.findings

    @property
    def compared(self) -> int:
        """How many values the last audit compared."""
        return 0 if self._report is None else self._report.compared

    @property
    def error(self) -> str:
        """Why the last audit failed; empty if it did not."""
        return self._error

    def wake(self) -> None:
        """Something happened: make the next audit due as soon as audits may follow each other."""
        if self._first is None:
            self._at = min(self._at, self._woken_at)

    def next_at(self) -> float:
        """When the next audit is due, in monotonic seconds."""
        return self._at

    def looks_again(self, held_seconds: float = 0.0) -> bool:
        """Whether an audit's second look is due, before which the pods have to be read again."""
        due = self._at + held_seconds
        return self._first is not None and self._clock.monotonic() >= due

    def look(
        self, plan: Plan, held_seconds: float = 0.0, *, is_new: bool = True
    ) -> tuple[FindingEvent, ...]:
        """Look at the node if that has been due for ``held_seconds``. Returns the findings that appeared,
        changed or went. A second look takes place only if ``is_new``: the plan is of pods that were read
        again."""
        begun, first = self._clock.monotonic(), self._first
        if begun < self._at + held_seconds or not (is_new or first is None):
            return ()
        try:
            report, self._error = self._auditor.look(plan), ""
            if first is not None and report.findings:
                report = self._auditor.judged(first, report, plan)
        except QosletError as error:
            self._first, self._error = None, str(error)
            self._at = self._woken_at = begun + self._interval
            return ()
        now = self._clock.monotonic()
        if report.findings and first is None:
            self._first = report
            self._at = now + AGAIN_SECONDS
            return ()
        took = (now - begun) * (1 if first is None else 2)
        self._first, self._report = None, report
        self._at = now + max(self._interval, took / SHARE)
        self._woken_at = now + max(LEAST_SECONDS, took / WOKEN_SHARE)
        self._known, told = events(self._known, report, report.findings)
        return told
