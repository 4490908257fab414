"""Decides what is set in the containers of a runtime, and knows what was set.

The runtime's thread calls ``synchronized``, ``created``, ``updated``, ``written``, ``removed`` and
``pod_started``; the loop calls ``change``, which writes files itself: a runtime that a plugin asks to update containers
may stop for good, as it takes the locks of its own events in the other order.
Source: containerd issue 13733.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from qoslet.agent.nri.planned_values import PlannedValues
from qoslet.agent.nri.ports import CgroupValues, KeptValues, ValuesJournal
from qoslet.core.cgroup.accepts import same
from qoslet.core.guest.nri_container import NO_VALUES, NriContainer, NriUpdate, Unified
from qoslet.core.guest.nri_values import (
    CARRIED,
    HIGH,
    MAX,
    ContainerValues,
    may_carry,
    values_at_creation,
    values_to_change,
    values_to_return,
)
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.reconcile.journal import Entry, Released, Removed, Set

_CURRENT = "memory.current"


class TrackedContainer(Struct, frozen=True):
    """``holds``: what its files hold, as far as that is known; the loop reads them unless ``is_read``."""

    container: NriContainer
    holds: Unified
    is_read: bool = True


class NriPlugin:
    """One for each node. ``log`` takes lines from any thread. Without ``writes`` what exists is left to
    the agent."""

    def __init__(
        self,
        planned: PlannedValues,
        journal: ValuesJournal,
        cgroups: CgroupValues,
        specs: KeptValues,
        log: Callable[[str], None],
        *,
        writes: bool = True,
    ) -> None:
        self.created_containers = self.set_containers = 0
        """Containers that were created, and those of them in which values were set."""
        self._planned = planned
        self._journal = journal
        self._cgroups = cgroups
        self._specs = specs
        self._log = log
        self._writes = writes
        self._lock = threading.Lock()
        self._known: dict[str, TrackedContainer] = {}
        self._is_synchronized = False
        """Whether the runtime has listed all containers since the loop's last ``write_changes``."""
        self._refused: dict[str, Unified] = {}
        self._unchanged: dict[
            str, tuple[TrackedContainer, ContainerValues | None, GuestPolicy]
        ] = {}
        """The last look at each container in which nothing differed: an equal one needs no other look."""

    def synchronized(self, containers: Sequence[NriContainer]) -> None:
        """The runtime lists all containers; the loop writes their values."""
        known = {one.id: _unread(one) for one in containers if may_carry(one)}
        with self._lock:
            self._known = known
            self._refused.clear()
            self._is_synchronized = True
        self._planned.wake()

    def pod_started(self) -> None:
        """A pod's sandbox has started: its containers are created next."""
        self._planned.ask()

    def created(self, container: NriContainer) -> Unified:
        """The values to set in a container that is being created, once they are in the journal."""
        self.created_containers += 1
        if not self._may_set(container):
            return NO_VALUES
        planned, values = self._planned.current(container, self._planned.wait_seconds), NO_VALUES
        if planned is None:
            self._log(f"nothing is set in {container}: no plan has it with these resources")
        else:
            values = values_at_creation(planned, container)
        self._keep(container, NO_VALUES, values)
        self.set_containers += bool(values)
        return values

    def updated(self, container: NriContainer, taken: Unified) -> Unified:
        """The values to set in a container whose resources the kubelet changes, without the files that
        are ``taken``. If no plan with these resources comes in time, the loop writes them later."""
        if not self._may_set(container):
            return NO_VALUES
        planned, values = None, NO_VALUES
        if self._planned.answers_updates:
            planned = self._planned.current(container, self._planned.resize_seconds)
        else:
            self._planned.ask()
        holds = self._cgroups.read(container.path or "", CARRIED)
        if planned is not None:
            # the runtime writes all of the spec again, also what is right in the cgroup
            known = TrackedContainer(container, NO_VALUES)
            wanted = self._wanted(known, self._planned.policy).unified
            values = {file: value for file, value in wanted.items() if file not in taken}
        self._keep(container, holds, values)
        return values

    def written(self, id: str) -> None:
        """The runtime has written the spec of a container, and with it values of earlier answers."""
        with self._lock:
            known = self._known.get(id)
            if known is None:
                return
            self._known[id] = _unread(known.container)
        self._planned.wake()

    def removed(self, id: str) -> None:
        """A container and its cgroup are gone."""
        with self._lock:
            known = self._known.pop(id, None)
            self._refused.pop(id, None)
        path = None if known is None else known.container.path
        if path is not None and self._journal.values_of(path):
            self._journal.record([Removed(path, done=True)])

    def write_changes(self, policy: GuestPolicy | None = None) -> Sequence[str]:
        """Write the values that differ in existing containers, after their journal entries, and have the
        runtime keep the values that are given back. ``policy`` replaces the node's. Returns a line for
        each failure; the same values are not tried again. Raises QosletError if the journal cannot be
        written."""
        found, entries = list[tuple[TrackedContainer, NriUpdate]](), list[Entry]()
        with self._lock:
            known = list(self._known.values())
            paths = self._journal.paths() if self._is_synchronized else ()
            self._is_synchronized = False
        self._forget_gone(set(paths) - {one.container.path for one in known})
        policy, unchanged = policy or self._planned.policy, self._unchanged
        self._unchanged = {}
        for one in map(self._read, known):
            state = one, self._planned.known(one.container), policy
            if unchanged.get(one.container.id) == state:
                self._unchanged[one.container.id] = state
                continue
            update = self._wanted(one, policy)
            if not update.unified:
                self._unchanged[update.id] = state
            if not self._writes:
                update = NriUpdate(update.id, update.given_back, update.returned)
            if update.unified and self._refused.get(update.id) != update.unified:
                entries += _entries(one, update.unified)
                found.append((one, update))
        if entries:
            self._journal.record(entries)
        lines = list[str]()
        if self._writes:
            lines += (line for one, update in found for line in self._write(one, update))
        returned = [(one.container, update) for one, update in found if update.returned]
        return [*lines, *self._give_back(returned)]

    def _forget_gone(self, paths: Iterable[str]) -> None:
        """Remove cgroups from the journal whose containers the runtime does not know and that do not exist.
        If they exist, this may not be the kubelet's runtime."""
        gone = [
            Removed(path, done=True) for path in paths if not self._cgroups.read(path, (_CURRENT,))
        ]
        if gone:
            self._journal.record(gone)

    def _read(self, one: TrackedContainer) -> TrackedContainer:
        """A container with what its files hold."""
        if one.is_read:
            return one
        holds = self._cgroups.read(one.container.path or "", CARRIED)
        found = TrackedContainer(one.container, holds)
        with self._lock:
            if self._known.get(one.container.id) is one:
                self._known[one.container.id] = found
        return found

    def _write(self, one: TrackedContainer, update: NriUpdate) -> list[str]:
        """Write the values of one container. Returns a line for each file that cannot be written."""
        container, written, wrong = one.container, dict[str, str](), list[str]()
        path = container.path or ""
        for file, value in update.unified.items():
            try:
                self._cgroups.write(path, file, value)
            except FileNotFoundError:
                # it has ended, and the runtime tells so
                return []
            except OSError as error:
                wrong.append(f"{container}: {file} cannot be written: {error.strerror}")
            else:
                written[file] = value
        with self._lock:
            known = self._known.get(update.id)
            if known is None:
                return []
            if wrong:
                self._refused[update.id] = update.unified
            if known is one:
                # else the runtime has written meanwhile, and these files are looked at again
                holds = {**known.holds, **written}
                self._known[update.id] = TrackedContainer(container, holds)
        given = [Released(path, file) for file in sorted(update.returned & written.keys())]
        if given:
            self._journal.record(given)
        return wrong

    def _give_back(self, found: Sequence[tuple[NriContainer, NriUpdate]]) -> list[str]:
        """Have the runtime keep the values that containers get back. Returns a line for each reason why
        it does not."""
        if not found:
            return []
        failed = self._specs.give_back({update.id: update.given_back for _, update in found})
        reasons = Counter[str]()
        for container, update in found:
            path, id = container.path or "", update.id
            holds = self._cgroups.read(path, update.returned)
            if id in failed and not self._writes:
                self._refused[id] = update.unified
            if id in failed:
                # one that is not started yet has no cgroup, and is tried again
                reasons[failed[id]] += bool(holds)
                continue
            given = [
                Released(path, file)
                for file in self._journal.values_of(path)
                if file in update.returned
                and (file not in holds or same(file, update.unified[file], holds[file]))
            ]
            if given:
                self._journal.record(given)
        return [
            f"values of {count} containers come back when their resources are changed: {reason}"
            for reason, count in reasons.items()
            if count
        ]

    def _may_set(self, container: NriContainer) -> bool:
        """Whether values may be set in a container. If the policy writes nothing, the container is only
        noted, so that its creation waits for no plan."""
        if not may_carry(container):
            return False
        if self._planned.policy.writable:
            return True
        with self._lock:
            self._known[container.id] = TrackedContainer(container, NO_VALUES)
        return False

    def left(self) -> Sequence[str]:
        """The cgroups in which values of ours are set."""
        return self._journal.paths()

    def _wanted(self, known: TrackedContainer, policy: GuestPolicy) -> NriUpdate:
        """The values to set in a container: those that differ from the plan or are given back."""
        id, path = known.container.id, known.container.path or ""
        planned = self._planned.known(known.container) if policy.writable else None
        back = values_to_return(planned, policy, self._journal.values_of(path))
        wanted = values_to_change(planned, known.holds, back, 0)
        if wanted.get(HIGH, MAX) != MAX:
            usage = self._cgroups.read(path, [_CURRENT]).get(_CURRENT, "0")
            used = int(usage) if usage.isdecimal() else None
            wanted = values_to_change(planned, known.holds, back, used)
        return NriUpdate(id, wanted, frozenset(back) & frozenset(wanted))

    def _keep(self, container: NriContainer, before: Unified, values: Unified) -> None:
        """Record the ``values`` that a container gets over those it holds (``before``), here and in the
        journal."""
        holds = {**before, **values}
        with self._lock:
            # together, or the loop takes it for one that the runtime does not know
            if values:
                self._journal.record(_entries(TrackedContainer(container, before), values))
            self._known[container.id] = TrackedContainer(container, holds)


def _unread(container: NriContainer) -> TrackedContainer:
    """A container whose files the loop reads later, so that the runtime does not wait for that."""
    return TrackedContainer(container, NO_VALUES, is_read=False)


def _entries(known: TrackedContainer, values: Unified) -> list[Entry]:
    """Journal entries of a container's values. A file of a new container has no earlier value."""
    path = known.container.path or ""
    return [Set(path, file, known.holds.get(file), value) for file, value in values.items()]
