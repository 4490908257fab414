"""Everything about memory as it stands, for surfaces."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.memory.rows import MemoryEvent, MemoryRow, WatchRow
from qoslet.core.memory.sample import NodeMemory
from qoslet.core.pressure.eviction_ranking import NO_REPORT as NO_PRESSURE
from qoslet.core.pressure.eviction_ranking import PressureReport
from qoslet.core.pressure.guard_report import NO_REPORT, GuardReport


class MemoryView(Struct, frozen=True):
    """Everything about memory as it stands. ``how`` says what wakes the agent, and what this
    kernel cannot tell; ``page`` is the bytes of a page."""

    groups: tuple[MemoryRow, ...] = ()
    events: tuple[MemoryEvent, ...] = ()
    node: NodeMemory | None = None
    watched: tuple[WatchRow, ...] = ()
    guard: GuardReport = NO_REPORT
    pressure: PressureReport = NO_PRESSURE
    how: tuple[str, ...] = ()
    page: int = 4096
