"""Everything about memory at one moment, for surfaces."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.memory.rows import MemoryEvent, MemoryRow, WatchRow
from qoslet.core.memory.sample import NodeMemory
from qoslet.core.pressure.eviction_ranking import NO_PRESSURE_REPORT, PressureReport
from qoslet.core.pressure.guard_report import NO_GUARD_REPORT, GuardReport


class MemoryView(Struct, frozen=True):
    """Everything about memory at one moment. ``how`` says what wakes the agent, and what this
    kernel cannot tell; ``page`` is the size of a page in bytes."""

    groups: tuple[MemoryRow, ...] = ()
    events: tuple[MemoryEvent, ...] = ()
    node: NodeMemory | None = None
    watched: tuple[WatchRow, ...] = ()
    guard: GuardReport = NO_GUARD_REPORT
    pressure: PressureReport = NO_PRESSURE_REPORT
    how: tuple[str, ...] = ()
    page: int = 4096
