"""What an agent of qoslet or a kubelet tells of its pods, as events of their stories.

Pure: the document ``PodStates`` comes in, or pods with their status. Both repeat what happened in every answer,
so each is told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from qoslet.core.api.pod import Pod
from qoslet.core.problem import Severity
from qoslet.core.status.page.pod_story import StoryEvent, StoryKind

REMEMBERED = 10_000
"""Events that are known to be told; of more than that the oldest half is forgotten."""

_WORDS = {
    "max": "at its memory limit",
    "high": "throttled at memory.high",
    "low": "reclaimed below memory.low",
    "oom": "out of memory at its limit",
    "oom_kill": "",
    "oom_group_kill": "the whole container",
}
"""The kernel's names of events in memory.events, for people."""


class AgentStory:
    """Turns answers of one agent or kubelet into events."""

    def __init__(self) -> None:
        self._told: dict[tuple[object, ...], None] = {}

    def events(
        self, document: Mapping[str, Any], now: float, wall: float
    ) -> Iterator[tuple[str, StoryEvent]]:
        """New events with their pods, ``namespace/name``; ``now`` is monotonic seconds."""
        memory = document.get("memory") or {}
        for row in memory.get("events", ()):
            said = _WORDS.get(row["event"], row["event"])
            text = " ".join(filter(None, (said, row.get("process"), row.get("why"))))
            text = text or "a process"
            kind: StoryKind = "oom-kill" if "kill" in row["event"] else "agent"
            severity: Severity = "error" if kind == "oom-kill" else "warning"
            yield from self._once(row, kind, text, severity, now, wall, row.get("count") or 0)
        for row in (memory.get("guard") or {}).get("decisions", ()):
            text = f"{row['answer']} ({row['mode']}): {row['because']}"
            yield from self._once(row, "guard", text, "warning", now, wall, 0)
        for pod in document.get("items", ()):
            yield from self._of_pod(pod, now, wall)
        self._forget()

    def exits(
        self, pods: Iterable[Pod], now: float, wall: float
    ) -> Iterator[tuple[str, StoryEvent]]:
        """New ends of containers by the status of their pods."""
        for pod in pods:
            for one in pod.containers:
                if (last := one.last_exit) is not None:
                    row = {"pod": pod.key, "time": last.finished_at, "cgroup": pod.uid}
                    text = _exited(last.reason, last.exit_code)
                    severity: Severity = "warning" if last.exit_code else "info"
                    row["container"] = one.name
                    yield from self._once(row, "agent", text, severity, now, wall, 0)
        self._forget()

    def _forget(self) -> None:
        if len(self._told) > REMEMBERED:
            for key in list(self._told)[: REMEMBERED // 2]:
                del self._told[key]

    def _once(
        self,
        row: Mapping[str, Any],
        kind: StoryKind,
        text: str,
        severity: Severity,
        now: float,
        wall: float,
        amount: float,
    ) -> Iterator[tuple[str, StoryEvent]]:
        key = (kind, row.get("time"), row.get("cgroup"), text)
        if key in self._told or not row.get("pod"):
            return
        self._told[key] = None
        happened = _seconds(row.get("time"), wall)
        at = min(now, now - (wall - happened))
        container = row.get("container") or ""
        yield (
            row["pod"],
            StoryEvent(kind, at, happened, at, container, amount, None, text, severity),
        )

    def _of_pod(
        self, pod: Mapping[str, Any], now: float, wall: float
    ) -> Iterator[tuple[str, StoryEvent]]:
        """A pod that failed or was evicted, and the last end of each container."""
        name = f"{pod['namespace']}/{pod['name']}"
        for container in pod.get("containers", ()):
            last = container.get("lastExit")
            if last is None:
                continue
            probe = ", after a failed probe" if last["afterProbe"] else ""
            text = f"{_exited(last['reason'], last['exitCode'])}{probe}"
            row = {"pod": name, "time": last["finishedAt"], "cgroup": container["cgroup"]}
            row["container"] = container["name"]
            severity: Severity = "warning" if last["exitCode"] else "info"
            yield from self._once(row, "agent", text, severity, now, wall, 0)
        reason = pod.get("reason") or ""
        if pod["phase"] == "Failed":
            text = ": ".join(filter(None, (pod.get("status") or reason, pod.get("message"))))
            row = {"pod": name, "time": pod.get("since"), "cgroup": pod["uid"]}
            yield from self._once(row, "agent", text, "error", now, wall, 0)


def _exited(reason: str, code: int) -> str:
    return f"exited: {reason}, exit code {code}" if reason else f"exited with code {code}"


def _seconds(text: object, fallback: float) -> float:
    """Seconds since 1970 of an RFC 3339 time."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return fallback
