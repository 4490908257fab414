"""Rows for surfaces: the memory of a cgroup, a memory event, a watched cgroup."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.memory.effective_protection import Binding, ProtectionLoss
from qoslet.core.memory.events import EventKind, Reclaimed, Zone
from qoslet.core.memory.sample import Pressure
from qoslet.core.resources.cgroup_tree import Level


class TrackedCgroup(Struct, frozen=True, gc=False):
    """A cgroup whose memory is sampled. ``uid`` is the pod's, ``title`` its name for people,
    ``request`` is bytes."""

    path: str
    level: Level
    title: str
    uid: str = ""
    pod: str = ""
    container: str = ""
    qos: str = ""
    request: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """The key of its counters, which outlive the cgroup: UID and container name, or the path
        of a cgroup above the pods."""
        return (self.uid, self.container) if self.uid else ("", self.path)


class MemoryEvent(Struct, frozen=True, gc=False):
    """An event that happened ``count`` times to a cgroup; ``at`` is wall-clock seconds.
    ``process`` and ``pid`` name the killed process, empty and 0 if unknown; ``why`` has details."""

    at: float
    kind: EventKind
    count: int
    path: str
    level: Level
    title: str
    pod: str = ""
    container: str = ""
    process: str = ""
    pid: int = 0
    why: str = ""


class MemoryRow(TrackedCgroup, frozen=True, gc=True):
    """The memory of a cgroup, and of its predecessors of the same name. ``gone``: it no longer
    exists. ``current`` to ``given_min`` are bytes of the last sample: ``low`` and ``min`` the
    effective protection, ``given_low`` and ``given_min`` the settings. ``binds`` is the limit that
    is reached first, on the cgroup or above it; ``losses`` are settings that protect less than
    they say. ``stalled`` is seconds in which all its processes waited for memory, ``waited`` in
    which some did. ``pressed``: a stall episode is not over. ``tells_pressure``,
    ``tells_protection``: the kernel has pressure, and ``memory.low`` and ``memory.min``, of cgroups;
    v1 has neither. ``recent`` holds pages reclaimed by zone in equal spans of time, of which the last
    one ends now."""

    gone: bool = False
    current: int | None = None
    high: int | None = None
    max: int | None = None
    low: int = 0
    min: int = 0
    given_low: int | None = None
    given_min: int | None = None
    binds: Binding | None = None
    losses: tuple[ProtectionLoss, ...] = ()
    pressure: Pressure | None = None
    events: Mapping[EventKind, int] = {}
    reclaimed: Mapping[Zone, Reclaimed] = {}
    stalled: float = 0.0
    waited: float = 0.0
    pressed: bool = False
    tells_pressure: bool = True
    tells_protection: bool = True
    recent: Mapping[Zone, tuple[int, ...]] = {}
    last: MemoryEvent | None = None


class WatchRow(Struct, frozen=True, gc=False):
    """The state of a cgroup in the guard or the pressure policy. ``what`` is a word for machines,
    ``because`` a sentence with the numbers. ``not_freed``: seconds since reclaim was seen to free
    memory of the cgroup, None where nobody asks that."""

    path: str
    who: str
    what: str
    because: str = ""
    not_freed: float | None = None
