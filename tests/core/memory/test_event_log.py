"""Which memory events are logged, and in which words."""

from __future__ import annotations

from typing import Any

from qoslet.core.memory.event_log import MemoryEventLog
from qoslet.core.memory.rows import MemoryEvent


def killed(count: int = 1, **more: Any) -> MemoryEvent:
    return MemoryEvent(0.0, "oom_kill", count, "/q/a", "container", "d/web/app", **more)


def test_a_kill_is_said_once_and_the_next_line_counts_those_between() -> None:
    log = MemoryEventLog()
    assert log.lines([killed()], 0.0) == ["d/web/app: the kernel OOM-killed a process"]
    assert log.lines([killed(), killed()], 5.0) == []
    assert log.lines([killed()], 10.0) == ["d/web/app: the kernel OOM-killed 3 processes"]
    assert log.lines([killed()], 21.0) == ["d/web/app: the kernel OOM-killed a process"]


def test_a_process_that_is_known_is_named_each_time() -> None:
    log = MemoryEventLog()
    for pid in (7, 8):
        said = log.lines([killed(process="java", pid=pid, why="limit of d/web/app")], 1.0)
        assert said == [
            f"d/web/app: the kernel OOM-killed process {pid} (java): limit of d/web/app"
        ]
