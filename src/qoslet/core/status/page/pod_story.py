"""Why a pod was slow or killed: what happened to it, in order, from the difference of two looks.

Pure. What goes on is one event that grows; what happens at once is an event each time. Times are
monotonic, the wall clock's beside them is only shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.pod import Pod
from qoslet.core.problem import Severity
from qoslet.core.status.node_top import TopRow
from qoslet.core.status.page.node_view import PRESSURE_PERCENT, THROTTLED_SHARE, NodeView

StoryKind = Literal[
    "started",
    "restarted",
    "ended",
    "removed",
    "throttled",
    "slowed",
    "waited",
    "at-limit",
    "oom-kill",
    "guard",
    "agent",
]
EVENTS_OF_A_POD = 200
GONE_PODS = 100
"""Pods that are gone of which the events are kept."""
GAP = 2.5
"""Looks without it after which something that went on has ended."""

_GOES_ON: frozenset[StoryKind] = frozenset({"throttled", "slowed", "waited", "at-limit"})
_SEVERITIES: Mapping[StoryKind, Severity] = {
    "started": "info",
    "ended": "info",
    "removed": "info",
    "oom-kill": "error",
}


class StoryEvent(Struct, frozen=True):
    """Something that happened to a pod, or to its ``container``. ``at`` is monotonic seconds,
    ``wall`` seconds since 1970, ``until`` the last look that saw it. ``amount`` counts: seconds
    throttled, times a limit was reached, processes killed; ``limit`` is the bytes or cores that
    bound it; ``text`` is what another program says."""

    kind: StoryKind
    at: float
    wall: float
    until: float
    container: str = ""
    amount: float = 0.0
    limit: float | None = None
    text: str = ""
    severity: Severity = "warning"

    @property
    def seconds(self) -> float:
        """How long it went on."""
        return self.until - self.at


class PodStories:
    """The events of all pods of a node, since the first look."""

    def __init__(self) -> None:
        self._pods: dict[str, deque[StoryEvent]] = {}
        self._gone: deque[str] = deque()
        self._before: NodeView | None = None
        self._ended: frozenset[str] = frozenset()

    def of(self, pod: str) -> tuple[StoryEvent, ...]:
        """The events of a pod, ``namespace/name``, the oldest first."""
        return tuple(sorted(self._pods.get(pod, ()), key=lambda one: one.at))

    def pods(self) -> frozenset[str]:
        """The pods with events, those that are gone, too."""
        return frozenset(self._pods)

    def end(self, pods: Sequence[Pod], at: float, wall: float) -> None:
        """Take the pods that have ended, each once, and why; before the look that lacks them."""
        known, self._ended = self._ended, frozenset(pod.uid for pod in pods)
        shown = {one.row.title for one in self._before.pods} if self._before is not None else set()
        for pod in pods:
            if pod.uid not in known and pod.key in shown:
                word = (pod.phase or "").lower()
                text = ": ".join(filter(None, (word, pod.reason, pod.message.strip())))
                severity: Severity = "error" if pod.phase == "Failed" else "info"
                self.add(pod.key, StoryEvent("ended", at, wall, at, "", 0.0, None, text, severity))

    def look(self, view: NodeView, wall: float) -> None:
        """Compare a look with the one before."""
        before, self._before = self._before, view
        if before is None:
            return
        earlier = {pod.row.title: pod for pod in before.pods}
        for pod in view.pods:
            old = earlier.pop(pod.row.title, None)
            was = {row.title: row for row in old.containers} if old is not None else {}
            found: list[StoryEvent] = []
            for row in pod.containers or (pod.row,):
                first = was.get(row.title) if pod.containers else (old.row if old else None)
                found += changes(first, row, view, wall)
            if old is not None and pod.containers:
                found = [*killed_before_restart(old.row, pod.row, found), *found]
            for event in found:
                self.add(pod.row.title, event)
        for title in earlier:
            self.add(title, StoryEvent("removed", view.at, wall, view.at, severity="info"))
            self._forget(title)

    def add(self, pod: str, event: StoryEvent) -> None:
        """Take an event; one that goes on since the last look extends the one that is there."""
        events = self._pods.setdefault(pod, deque(maxlen=EVENTS_OF_A_POD))
        if event.kind in _GOES_ON:
            gap = GAP * (self._before.seconds if self._before is not None else 0.0)
            for index in range(len(events) - 1, -1, -1):
                old = events[index]
                if (old.kind, old.container) != (event.kind, event.container):
                    continue
                if event.at - old.until <= gap:
                    total = old.amount + event.amount
                    events[index] = replace(old, until=event.until, amount=total, limit=event.limit)
                    return
                break
        events.append(event)

    def _forget(self, pod: str) -> None:
        self._gone.append(pod)
        if len(self._gone) > GONE_PODS:
            oldest = self._gone.popleft()
            present = self._before.pods if self._before is not None else ()
            if all(one.row.title != oldest for one in present):
                self._pods.pop(oldest, None)


def killed_before_restart(
    before: TopRow, now: TopRow, found: Sequence[StoryEvent]
) -> Sequence[StoryEvent]:
    """Kills that only the pod still counts: a container that starts again has a new cgroup, with
    counters at zero. Source: kernel Documentation/admin-guide/cgroup-v2.rst, memory.events is
    hierarchical."""
    restarted = [one for one in found if one.kind == "restarted"]
    if not restarted or (before.path, before.identity) != (now.path, now.identity):
        return ()
    grown = now.events.get("oom_kill", 0) - before.events.get("oom_kill", 0)
    unexplained = grown - sum(one.amount for one in found if one.kind == "oom-kill")
    if unexplained <= 0:
        return ()
    first = restarted[0]
    container = first.container if len(restarted) == 1 else ""
    return (
        replace(first, kind="oom-kill", severity="error", container=container, amount=unexplained),
    )


def changes(
    before: TopRow | None, now: TopRow, view: NodeView, wall: float
) -> Sequence[StoryEvent]:
    """What happened to a container between two looks."""
    name = now.title if now.level == "container" else ""

    def event(kind: StoryKind, amount: float = 0.0, limit: float | None = None) -> StoryEvent:
        goes_on = kind in _GOES_ON
        began = view.at - view.seconds if goes_on else view.at
        at = wall - view.seconds if goes_on else wall
        severity = _SEVERITIES.get(kind, "warning")
        return StoryEvent(kind, began, at, view.at, name, amount, limit, "", severity)

    if before is None or not before.exists:
        return [event("started")] if now.exists else []
    if not now.exists:
        return [event("ended")]
    if (before.path, before.identity) != (now.path, now.identity):
        return [event("restarted")]
    found = []
    if (now.throttled or 0.0) > THROTTLED_SHARE * view.seconds:
        found.append(event("throttled", now.throttled or 0.0, now.cpu_limit))
    grown = {name: max(0, count - before.events.get(name, 0)) for name, count in now.events.items()}
    waits = (now.pressure or 0.0) > PRESSURE_PERCENT
    if grown.get("high") and waits:
        found.append(event("slowed", grown["high"], now.memory_high))
    elif waits:
        found.append(event("waited", now.pressure or 0.0))
    if grown.get("max"):
        found.append(event("at-limit", grown["max"], now.memory_limit))
    kills = max(grown.get("oom_kill", 0), (now.oom_kills or 0) - (before.oom_kills or 0))
    if kills > 0:
        found.append(event("oom-kill", kills, now.memory_limit))
    return found
