"""What surfaces show of memory: a row for each group, a row for each thing that happened."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.memory.effective_protection import Binding, ProtectionLoss
from qoslet.core.memory.events import EventKind, Reclaimed, Zone
from qoslet.core.memory.sample import Pressure
from qoslet.core.resources.cgroup_tree import Level


class TrackedCgroup(Struct, frozen=True, gc=False):
    """A group whose memory is followed. ``uid`` is the pod's, ``title`` what people call it,
    ``request`` bytes."""

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
        """What its counters go by, beyond the life of the group: pod and container, or the
        path of a group above the pods."""
        return (self.uid, self.container) if self.uid else ("", self.path)


class MemoryEvent(Struct, frozen=True, gc=False):
    """Something that happened ``count`` times to a group, seen at ``at`` (wall-clock seconds).
    ``process`` and ``pid`` are of who was killed, ``why`` tells what else is known of it; empty
    and 0 where nothing is."""

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


class MemoryRow(Struct, frozen=True):
    """A group's memory over its life and that of those before it under the same name. ``gone``:
    it is there no longer. ``current`` to ``given_min`` are of the last look, in bytes: ``low`` and
    ``min`` what is protected, ``given_low`` and ``given_min`` what the files say; ``binds`` is the
    limit that is met first from the group up, ``losses`` where a value is worth less. ``stalled`` is
    seconds in which all its processes waited for memory, ``waited`` in which some did; ``pressed``:
    its pressure goes on. ``tells_pressure``, ``tells_protection``: the kernel has pressure, and
    ``memory.low`` and ``memory.min``, of cgroups; v1 has neither. ``recent`` holds pages taken by zone in equal spans of time, the last one
    ends now."""

    path: str
    level: Level
    title: str
    uid: str = ""
    pod: str = ""
    container: str = ""
    qos: str = ""
    request: int = 0
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
    """What the guard or the pressure policy says of a group. ``what`` is a word for machines,
    ``because`` a sentence with the numbers."""

    path: str
    who: str
    what: str
    because: str = ""
