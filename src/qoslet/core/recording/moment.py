"""What a recording holds of one moment: numbers of cgroups, and the planned rows of that time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.status.node_top import PlannedRow

NODE = ""
"""The path of the series that holds the numbers of the whole node."""


class Series(Struct, frozen=True):
    """One cgroup at a moment. ``identity`` is its inode: a cgroup that was recreated is another
    series. ``values`` are integers by the names of ``core.recording.values``."""

    path: str
    identity: int
    values: Mapping[str, int] = {}


class RecordedRow(Struct, frozen=True):
    """A planned cgroup with what the guard has to know of its pod. ``request`` is of memory in
    bytes. ``because`` says for each planned file why it has its value."""

    row: PlannedRow
    uid: str = ""
    pod: str = ""
    container: str = ""
    guard: str = ""
    priority: int = 0
    critical: bool = False
    because: Mapping[str, str] = {}

    @property
    def key(self) -> str:
        """What tells rows of one plan apart."""
        return f"{self.row.name}\0{self.uid}"


class Session(Struct, frozen=True):
    """One run of the recorder. ``boot`` is the kernel's boot ID: monotonic times compare within it
    only. ``node`` is the block that documents have about a node; ``guard`` its guard mode."""

    boot: str
    started: float
    interval: float
    hierarchy: str
    page_size: int
    node: Mapping[str, Any]
    guard: str = "observe"
    version: str = ""


class Moment(Struct, frozen=True):
    """Everything at one moment. ``wall`` is seconds since 1970, ``at`` monotonic seconds, both to a
    thousandth. ``fresh`` are the paths that were read at this moment; the other series are as they
    were read last."""

    wall: float
    at: float
    series: Mapping[str, Series]
    rows: tuple[RecordedRow, ...] = ()
    fresh: frozenset[str] = frozenset()
