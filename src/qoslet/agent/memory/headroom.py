"""What the guard may still give: the groups that it gave something are looked at afresh, with all
above them."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.memory.tracked_cgroups import MemoryGroups
from qoslet.agent.ports import MemoryReader
from qoslet.core.cgroup.interface_files import NO_LIMIT
from qoslet.core.memory.rows import Followed
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure import headroom, throttle_guard
from qoslet.core.pressure.headroom import Part, Room
from qoslet.core.pressure.throttle_guard import Bounds, Hold, Policy


class Ground(Struct, frozen=True):
    """What one decision stands on: how far the group may go, and what there is for it.
    ``samples`` and ``parts`` are of the group, of the raised ones and of all above."""

    bounds: Bounds
    room: Room
    samples: dict[str, MemorySample]
    parts: dict[str, Part]


class Grants:
    """One for each guard. ``policy`` is the guard's."""

    def __init__(self, groups: MemoryGroups, reader: MemoryReader, policy: Policy) -> None:
        self._groups = groups
        self._reader = reader
        self._policy = policy

    def ground(
        self, group: Followed, sample: MemorySample, node: NodeMemory, holds: dict[str, Hold]
    ) -> Ground:
        """For a group that was just seen; ``holds`` are all that the guard has."""
        above = self._groups.above(group.path)
        pod = next((one.path for one in (*above, group) if one.uid), "")
        samples = {group.path: sample}
        raised = {path: one for path, one in holds.items() if one.raised}
        paths = {one.path for path in (group.path, *raised) for one in self._groups.above(path)}
        for path in (paths | raised.keys()) - samples.keys():
            seen = self._reader.sample(path)
            if seen is not None:
                samples[path] = seen
        parts = {path: _part(one, raised.get(path)) for path, one in samples.items()}
        own = NO_LIMIT if sample.max is None else sample.max
        if pod in parts and pod != group.path:
            own = min(own, parts[pod].left + sample.current)
        room = headroom.room(group.path, pod, throttle_guard.spare(node, self._policy), parts)
        return Ground(Bounds(own, bool(group.uid)), room, samples, parts)

    def idlest(self, path: str, ground: Ground, holds: dict[str, Hold]) -> tuple[str, int]:
        """The group that could give back most of what it was given, for another one, with the
        memory.high that is left to it; an empty path where none has much."""
        unused, found = headroom.unused(ground.parts), (self._policy.least_step, "", 0)
        for at, hold in holds.items():
            sample = ground.samples.get(at)
            if sample is None or not hold.raised or headroom.kin(at, path):
                continue
            if not headroom.is_below(at, ground.room.within):
                continue
            value = throttle_guard.lowered(hold, sample, self._policy)
            back = unused[at] - _part(sample, replace(hold, value=value)).granted
            found = max(found, (back, at, value))
        return found[1], found[2]


def _part(sample: MemorySample, hold: Hold | None) -> Part:
    """A group with what it was given, if it is the one that it was given to."""
    if hold is None or hold.identity != sample.identity:
        return headroom.part(sample)
    return headroom.part(sample, hold.planned, hold.value)
