"""Audits the node now and then: soon after something happened in it, and by time."""

from __future__ import annotations

from qoslet.agent.guest.ports import Auditor
from qoslet.agent.ports import Clock
from qoslet.core.audit.events import FindingEvent, Known, events
from qoslet.core.audit.finding import AuditReport, Finding
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import QosletError

AGAIN_SECONDS = 3.0
"""How long after a look what was off is looked at again: a change on its way is no fault. A kubelet
takes a second or two to tell that a container was started again. Source: pkg/kubelet/kubelet.go
genericPlegRelistPeriod."""
LEAST_SECONDS = 1.0
"""Between two audits at least."""
SHARE, WOKEN_SHARE = 0.003, 0.05
"""The part of the time that audits take at most: by time, and where something happens again and
again."""


class NodeAuditor:
    """One for each guest. ``interval`` seconds lie between two audits where nothing happens, more
    where they take long."""

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
        """Those that stand."""
        return () if self._report is None else self._report.findings

    @property
    def compared(self) -> int:
        """How many values the last audit compared."""
        return 0 if self._report is None else self._report.compared

    @property
    def error(self) -> str:
        """Why the last audit could not be done; empty where it was."""
        return self._error

    def wake(self) -> None:
        """Something happened: the next audit is due as soon as the last one lets it."""
        if self._first is None:
            self._at = min(self._at, self._woken_at)

    def next_at(self) -> float:
        """When the next audit is due, in monotonic seconds."""
        return self._at

    def looks_again(self, held_seconds: float = 0.0) -> bool:
        """Whether the next look is a second one, which is due: the pods are to be as new as it."""
        due = self._at + held_seconds
        return self._first is not None and self._clock.monotonic() >= due

    def look(
        self, plan: Plan, held_seconds: float = 0.0, *, is_new: bool = True
    ) -> tuple[FindingEvent, ...]:
        """Audit where that is due, or has been for ``held_seconds``; what appeared, changed or
        went. A second look waits for a plan that ``is_new``, of pods that were asked for again."""
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
