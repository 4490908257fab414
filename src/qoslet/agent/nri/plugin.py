"""Decides what is set in the containers of a runtime, and knows what was set.

The runtime's thread calls ``synchronized``, ``created``, ``updated``, ``removed`` and ``pod_started``;
the loop calls ``changes``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from qoslet.agent.nri.planned_values import PlannedValues
from qoslet.agent.nri.ports import ValuesJournal
from qoslet.core.guest.nri_container import NO_VALUES, NriContainer, NriUpdate, Unified
from qoslet.core.guest.nri_values import (
    HIGH,
    MAX,
    may_carry,
    values_at_creation,
    values_to_change,
)
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.reconcile.journal import Entry, Released, Removed, Set

BATCH = 4
"""Containers of one update: the runtime creates no container while it makes one."""

Usage = Callable[[str], int | None]
"""The bytes that a cgroup uses; None where that is not known."""


class NriPlugin:
    """One for each node. ``log`` takes lines from any thread."""

    def __init__(
        self,
        planned: PlannedValues,
        journal: ValuesJournal,
        usage: Usage,
        log: Callable[[str], None],
    ) -> None:
        self.created_containers = self.set_containers = 0
        """Containers that were created, and those of them in which values were set."""
        self._planned = planned
        self._journal = journal
        self._usage = usage
        self._log = log
        self._lock = threading.Lock()
        self._known: dict[str, NriContainer] = {}
        self._refused: dict[str, Unified] = {}

    def synchronized(self, containers: Sequence[NriContainer]) -> Sequence[NriUpdate]:
        """Every container that there is; the first changes, the others come with the loop."""
        known = {one.id: one for one in containers if may_carry(one)}
        paths = {one.path for one in known.values()}
        with self._lock:
            self._known = known
            self._refused.clear()
        gone = [Removed(path, done=True) for path in self._journal.paths() if path not in paths]
        if gone:
            self._journal.record(gone)
        updates = self.changes()
        self.changed(updates, frozenset())
        self._planned.wake()
        return updates

    def pod_started(self) -> None:
        """The containers of a pod are created next."""
        self._planned.ask()

    def created(self, container: NriContainer) -> Unified:
        """What to set in a container that is being created; it is in the journal."""
        self.created_containers += 1
        if not may_carry(container):
            return NO_VALUES
        planned, values = self._planned.current(container), NO_VALUES
        if planned is None:
            self._log(f"nothing is set in {container}: no plan has it with these resources")
        else:
            values = values_at_creation(planned, container)
        self._record(container, values)
        with self._lock:
            self._known[container.id] = replace(container, unified={**container.unified, **values})
        self.set_containers += bool(values)
        return values

    def updated(self, container: NriContainer, taken: Unified) -> Unified:
        """What to set in a container whose resources the kubelet changes; not what is ``taken``."""
        if not may_carry(container):
            return NO_VALUES
        if not self._planned.answers_updates:
            # the loop changes it right after
            self._planned.ask()
            return NO_VALUES
        planned, values = self._planned.current(container), NO_VALUES
        if planned is not None:
            wanted = self._wanted(container, self._planned.policy)
            values = {file: value for file, value in wanted.items() if file not in taken}
        self._record(container, values)
        with self._lock:
            unified = {**container.unified, **taken, **values}
            self._known[container.id] = replace(container, unified=unified)
        return values

    def removed(self, id: str) -> None:
        """A container is gone, and its cgroup with it."""
        with self._lock:
            known = self._known.pop(id, None)
            self._refused.pop(id, None)
        if known is not None and known.path is not None and self._journal.values_of(known.path):
            self._journal.record([Removed(known.path, done=True)])

    def changes(self, policy: GuestPolicy | None = None) -> list[NriUpdate]:
        """The next containers to change, a batch at most; their values are in the journal. ``policy``:
        another one than the node's."""
        found, entries = list[NriUpdate](), list[Entry]()
        with self._lock:
            known = list(self._known.values())
        for container in known:
            values = self._wanted(container, policy or self._planned.policy)
            if not values or self._refused.get(container.id) == values:
                continue
            entries += _entries(container, values)
            found.append(NriUpdate(container.id, values))
            if len(found) == BATCH:
                break
        if entries:
            self._journal.record(entries)
        return found

    def changed(self, updates: Sequence[NriUpdate], failed: frozenset[str]) -> None:
        """What came of changes; one that was refused is not tried again as it is."""
        with self._lock:
            for one in updates:
                known = self._known.get(one.id)
                if known is None:
                    continue
                if one.id in failed:
                    self._refused[one.id] = one.unified
                else:
                    unified = {**known.unified, **one.unified}
                    self._known[one.id] = replace(known, unified=unified)

    def forget(self) -> int:
        """Write down that what was given back is no longer ours; how many containers are left."""
        with self._lock:
            known = {one.path: one for one in self._known.values()}
        left, given = 0, list[Entry]()
        for path in self._journal.paths():
            container = known.get(path)
            if container is None or self._wanted(container, GuestPolicy()):
                left += 1
            else:
                given += [Released(path, file) for file in self._journal.values_of(path)]
        if given:
            self._journal.record(given)
        return left

    def _wanted(self, container: NriContainer, policy: GuestPolicy) -> Unified:
        """What differs in a container from what it should have, and can be set."""
        path = container.path or ""
        planned = self._planned.known(container) if policy.writable else None
        ours = self._journal.values_of(path)
        if planned is None and not ours:
            return NO_VALUES
        wanted = values_to_change(planned, policy, container, ours, 0)
        if wanted.get(HIGH, MAX) == MAX:
            return wanted
        return values_to_change(planned, policy, container, ours, self._usage(path))

    def _record(self, container: NriContainer, values: Unified) -> None:
        if values:
            self._journal.record(_entries(container, values))


def _entries(container: NriContainer, values: Unified) -> list[Entry]:
    """The values of a container, for the journal. Without us each file would hold what the kernel
    begins with, since the container's spec does not name it."""
    return [Set(container.path or "", file, None, value) for file, value in values.items()]
