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
        """Whether the runtime has told of all containers since the loop looked."""
        self._refused: dict[str, Unified] = {}
        self._right: dict[str, tuple[TrackedContainer, ContainerValues | None, GuestPolicy]] = {}
        """Containers in which nothing differed, and from what."""

    def synchronized(self, containers: Sequence[NriContainer]) -> None:
        """Every container that there is; the loop changes them."""
        known = {one.id: _unread(one) for one in containers if may_carry(one)}
        with self._lock:
            self._known = known
            self._refused.clear()
            self._is_synchronized = True
        self._planned.wake()

    def pod_started(self) -> None:
        """The containers of a pod are created next."""
        self._planned.ask()

    def created(self, container: NriContainer) -> Unified:
        """What to set in a container that is being created; it is in the journal."""
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
        """What to set in a container whose resources the kubelet changes; not what is ``taken``. Where
        no plan has them in time, the loop writes the values."""
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
        """The runtime has written the spec of a container: what it keeps of earlier answers is in the
        files again."""
        with self._lock:
            known = self._known.get(id)
            if known is None:
                return
            self._known[id] = _unread(known.container)
        self._planned.wake()

    def removed(self, id: str) -> None:
        """A container is gone, and its cgroup with it."""
        with self._lock:
            known = self._known.pop(id, None)
            self._refused.pop(id, None)
        path = None if known is None else known.container.path
        if path is not None and self._journal.values_of(path):
            self._journal.record([Removed(path, done=True)])

    def change(self, policy: GuestPolicy | None = None) -> Sequence[str]:
        """Write what differs in containers that exist, once it is in the journal, and have the runtime
        keep what is given back; returns a line for what cannot be done, which is not tried again as it
        is. ``policy``: another one than the node's. Raises QosletError where the journal cannot be
        written."""
        found, entries = list[tuple[TrackedContainer, NriUpdate]](), list[Entry]()
        with self._lock:
            known = list(self._known.values())
            paths = self._journal.paths() if self._is_synchronized else ()
            self._is_synchronized = False
        self._forget_gone(set(paths) - {one.container.path for one in known})
        policy, right = policy or self._planned.policy, self._right
        self._right = {}
        for one in map(self._read, known):
            state = one, self._planned.known(one.container), policy
            if right.get(one.container.id) == state:
                self._right[one.container.id] = state
                continue
            update = self._wanted(one, policy)
            if not update.unified:
                self._right[update.id] = state
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
        """Forget cgroups whose containers the runtime does not know, unless they are there: it may not
        be the kubelet's runtime."""
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
        """Write the values of one container; what is wrong with it."""
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
        """Have the runtime keep what containers are to hold again; a line for each reason why not."""
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
        """Whether a container is asked about at all: without a policy that writes nothing is waited
        for."""
        if not may_carry(container):
            return False
        if self._planned.policy.writable:
            return True
        with self._lock:
            self._known[container.id] = TrackedContainer(container, NO_VALUES)
        return False

    def left(self) -> Sequence[str]:
        """The cgroups of containers in which something is set."""
        return self._journal.paths()

    def _wanted(self, known: TrackedContainer, policy: GuestPolicy) -> NriUpdate:
        """What differs in a container from what it should have, and can be set."""
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
        """Write down what is set in a container that holds ``before``, and know it."""
        holds = {**before, **values}
        with self._lock:
            # together, or the loop takes it for one that the runtime does not know
            if values:
                self._journal.record(_entries(TrackedContainer(container, before), values))
            self._known[container.id] = TrackedContainer(container, holds)


def _unread(container: NriContainer) -> TrackedContainer:
    """One whose files the loop reads: the runtime waits for no file."""
    return TrackedContainer(container, NO_VALUES, is_read=False)


def _entries(known: TrackedContainer, values: Unified) -> list[Entry]:
    """The values of a container, for the journal, with what its files hold before: a new one what the
    kernel begins with."""
    path = known.container.path or ""
    return [Set(path, file, known.holds.get(file), value) for file, value in values.items()]
