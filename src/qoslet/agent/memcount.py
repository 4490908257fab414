"""Counts what happens to memory, says what matters, and keeps it over the end of the agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from qoslet.agent.memgroups import MemoryGroups, Moved
from qoslet.agent.ports import MemoryParts
from qoslet.agent.shared import Shared
from qoslet.core.memevents import FREE, Protection
from qoslet.core.memkills import Kills, Settled, inside
from qoslet.core.memlines import Lines
from qoslet.core.memrow import MemoryEvent, MemoryRow
from qoslet.core.memsample import MemorySample
from qoslet.core.memtally import Key, Tallies, event
from qoslet.core.protection import claim_of, solve
from qoslet.core.worth import recursive

KEEP = 60.0
"""Seconds between two writings of what was counted, where anything was."""


class Counting:
    """One for each agent; goes on where the one before it was."""

    def __init__(self, shared: Shared, parts: MemoryParts, groups: MemoryGroups) -> None:
        self._shared = shared
        self._parts = parts
        self._groups = groups
        self.tallies = Tallies()
        self._kills = Kills()
        self._lines = Lines()
        self._pids: dict[Key, int] = {}
        self._changed = False
        self._kept_at = shared.now
        kept = parts.keep.load() if parts.keep is not None else None
        if kept is not None and not self.tallies.load(kept):
            shared.say("what an earlier agent counted of memory cannot be read; counting anew")

    def follow(self, moved: Moved) -> None:
        """The groups have changed."""
        ended = self.tallies.went(moved.gone, self._shared.clock.wall())
        self.tallies.events.extend(ended)
        self.tallies.come(moved.come)
        if ended:
            self._say(ended)

    def see(self, samples: Mapping[str, MemorySample]) -> None:
        """What was looked at in this turn."""
        wall = self._shared.clock.wall()
        found: list[MemoryEvent] = []
        self._note_pids({self._groups.groups[path].uid for path in samples})
        worth = self._worth(samples)
        whole: set[str] = set()
        for path in sorted(samples, key=len):
            group, above = self._groups.groups[path], self._groups.above(path)
            kept = worth.get(path, FREE)
            told = self.tallies.see(samples[path], group, above, wall, kept)
            if any(one.kind == "oom_group_kill" for one in told):
                whole.add(path)
            together = not whole.isdisjoint({path, *_parents(path)})
            for one in told:
                if one.kind == "oom_kill":
                    self._killed(one, group.key, whole=together)
                else:
                    self.tallies.happened(one, group.key)
                    found.append(one)
        self._unclaimed(samples, wall)
        self._changed = self._changed or bool(samples)
        self._say(found)

    def _unclaimed(self, samples: Mapping[str, MemorySample], wall: float) -> None:
        """Kills in pods whose containers' groups have gone with what they counted."""
        for path in samples:
            pod = self._groups.groups[path]
            if pod.level != "pod":
                continue
            containers = [one for one in self._groups.of_pod(pod.uid) if one.level == "container"]
            count = self.tallies.unclaimed(pod, containers)
            if count:
                whole = self.tallies.counted(pod, "oom_group_kill") > 0
                self._killed(event(pod, "oom_kill", count, wall), pod.key, whole=whole)

    def _killed(self, one: MemoryEvent, key: Key, *, whole: bool) -> None:
        """Kills that were counted; who it was is asked of the log."""
        readable = self._parts.log.readable
        self._kills.counted(one, key, self._shared.now, readable, whole=whole)

    def _worth(self, samples: Mapping[str, MemorySample]) -> dict[str, Protection]:
        """What of each group is protected, by the last looks at all."""
        looks = {one.path: one for one in self.tallies.samples()} | dict(samples)
        if not any(one.low or one.min for one in looks.values()):
            return {}
        outside = {at for path in looks for at in _parents(path)} - looks.keys()
        found = [self._parts.reader.sample(path) for path in outside]
        claims = [claim_of(one) for one in (*looks.values(), *found) if one is not None]
        solved = solve(claims, recursive=recursive(self._shared.node.host))
        return {
            path: Protection(solved[path].protected, solved[path].hard)
            for path in samples
            if path in solved
        }

    def settle(self) -> None:
        """Name those that were killed, as far as that is known by now."""
        if self._kills.next_at() is not None:
            self._say([])

    def next_at(self) -> float | None:
        """When something is due that no sample tells."""
        return self._kills.next_at()

    def _say(self, found: list[MemoryEvent]) -> None:
        now = self._shared.now
        if self._kills.next_at() is not None:
            self._kills.told(self._parts.log.kills(), now)
            for settled in self._kills.settled(now, self._ended()):
                found.append(self._placed(settled))
                self.tallies.happened(found[-1], settled.key)
        self._shared.said.notes += self._lines.of(found, now)

    def _placed(self, one: Settled) -> MemoryEvent:
        """A kill that was counted for a pod, in the container where the log says it was."""
        uid, container = one.key
        for group in self._groups.of_pod(uid) if uid and not container and one.group else ():
            if group.level == "container" and inside(one.group, group.path):
                self.tallies.claim(one.key, group)
                return replace(
                    one.event,
                    path=group.path,
                    level=group.level,
                    title=group.title,
                    container=group.container,
                )
        return one.event

    def _note_pids(self, uids: Iterable[str]) -> None:
        """The first process of each container that runs, of these pods."""
        for uid in uids:
            pace = self._shared.paces.get(uid)
            for state in pace.states if pace is not None else ():
                if state.running and state.pid is not None:
                    self._pids[uid, state.name] = state.pid
        if len(self._pids) > 2 * len(self._groups.groups):
            known = {group.key for group in self._groups.groups.values()}
            self._pids = {key: pid for key, pid in self._pids.items() if key in known}

    def _ended(self) -> dict[Key, int]:
        """The first process of containers whose runtime says that they ended for memory."""
        return {
            key: self._pids[key]
            for pace in self._shared.paces.values()
            for state in pace.states
            if not state.running
            and state.reason == "OOMKilled"
            and (key := (pace.uid, state.name)) in self._pids
        }

    def rows(self) -> list[MemoryRow]:
        """Every group that was ever counted."""
        return self.tallies.rows(self._shared.now)

    def keep(self, *, now: bool = False) -> None:
        """Write down what was counted: now and then, or ``now``."""
        due = now or self._shared.now - self._kept_at >= KEEP
        if self._parts.keep is None or not self._changed or not due:
            return
        self._changed, self._kept_at = False, self._shared.now
        try:
            self._parts.keep.save(self.tallies.dump())
        except OSError as error:
            self._shared.said.errors.append(f"memory events are not kept: {error.strerror}")


def _parents(path: str) -> list[str]:
    """The groups above one, without the hierarchy's own root."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]
