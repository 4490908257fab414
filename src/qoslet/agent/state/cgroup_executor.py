"""Looks at groups, compares them with what is planned and performs the steps, each for its owner.

A failure belongs to the pod that it happened to: the rest of its steps are left, the others' are
done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.ports import Driver, Observer
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.node import Node
from qoslet.core.reconcile.drift import Difference, compare
from qoslet.core.reconcile.journal import Created, Entry, JournalState, Key, Recorder, record_done
from qoslet.core.reconcile.limit_shrink import Shrink, Waiting, eased, with_cache
from qoslet.core.reconcile.steps import Outcome, Step, ordered
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.workload.pod_status import Meter

Meters = dict[str, Meter]
"""Meters of the work on groups, by ``create``, ``update`` and ``destroy``."""


class Journal(Recorder, Protocol):
    """The journal of the tree, open."""

    ledger: JournalState


class MemoryJournal:
    """A tree in which everything is ours; what is recorded ends with the process."""

    wants_before = False

    def __init__(self) -> None:
        self.ledger = JournalState()

    def record(self, entries: Sequence[Entry]) -> None:
        """Remember entries."""
        self.ledger.add(entries)

    record_later = record


class BatchResult(Struct):
    """What came of steps. ``failed`` is the first failure of each owner; ``not_created`` are groups
    that could not be made."""

    outcomes: list[Outcome] = []
    failed: dict[str, str] = {}
    not_created: set[str] = set()

    @property
    def done(self) -> int:
        """Steps that worked."""
        return sum(one.error is None and not one.pending for one in self.outcomes)

    @property
    def pending(self) -> list[str]:
        """Steps that go on in the kernel."""
        return [one.step.describe() for one in self.outcomes if one.pending]


class CgroupDiff(Struct):
    """What is off in some groups: all of it, the steps that end it, and what waits for usage.
    ``foreign`` are planned groups that somebody else made."""

    differences: Sequence[Difference] = ()
    steps: Sequence[Step] = ()
    waiting: Sequence[Waiting] = ()
    cgroups: Mapping[str, ObservedCgroup] = {}
    foreign: frozenset[str] = frozenset()


class CgroupExecutor:
    """The only place of the loop that reads groups and performs steps. ``journal`` tells which
    groups are ours; ``clock`` gives monotonic seconds. ``overrides`` are values that count instead of
    the planned ones, until they are taken out."""

    def __init__(
        self,
        root: str,
        driver: Driver,
        observer: Observer,
        clock: Callable[[], float],
        *,
        book: Journal | None = None,
        shrink: Shrink = "converge",
    ) -> None:
        self.root = root
        self.driver = driver
        self.observer = observer
        self.journal: Journal = book or MemoryJournal()
        self.meters: Meters = {}
        self.notes: list[str] = []
        self.overrides: dict[Key, str] = {}
        self._all_ours = book is None
        self._clock = clock
        self._shrink = shrink
        self._observed: Observed | None = None
        self._changed: set[str] = set()
        self._identities: dict[str, int] = {}
        self._files: set[str] = set()

    def watch(self, groups: Iterable[Cgroup]) -> None:
        """Read the planned files of these groups, besides the known ones."""
        self.watch_files({row.file for group in groups for row in group.settings})

    def watch_files(self, files: Collection[str]) -> None:
        """Read these files besides the known ones."""
        if not self._files.issuperset(files):
            self._files.update(files)
            self.observer.watch(files)

    def observe_all(self) -> Observed:
        """Read the whole tree once; ``read`` answers from it until ``drop_cache``."""
        self._observed = self.observer.observe(self.root)
        self._changed.clear()
        return self._observed

    def drop_cache(self) -> None:
        """What ``observe_all`` has read is old."""
        self._observed = None
        self._changed.clear()

    def is_below_root(self, path: str) -> bool:
        """Whether a group is the root or below it."""
        return at_or_below(path, (self.root,))

    def is_foreign(self, path: str) -> bool:
        """Whether a group belongs to somebody else: it is outside the root, or the root itself
        where that was handed to us."""
        return not self.is_below_root(path) or (
            path == self.root and path in self.journal.ledger.adopted
        )

    def read(self, path: str, *, by_runtime: bool = False) -> ObservedCgroup | None:
        """One group, None where it is absent. What others did to one of ours is noted; what is
        ``by_runtime`` comes and goes with its container."""
        if self._observed is not None and self.is_below_root(path) and path not in self._changed:
            seen = self._observed.cgroups.get(path)
        else:
            seen = self.observer.look(path)
        if by_runtime:
            return seen
        known = self._identities.pop(path, None)
        if seen is not None:
            self._identities[path] = seen.identity
        if known is not None and seen is None:
            self.notes.append(f"{path} was removed by somebody else; it is made again")
        elif known is not None and seen is not None and known != seen.identity:
            self.notes.append(
                f"{path} was made anew by somebody else; its values are written again"
            )
            self._adopt_replaced(path, seen.identity)
        return seen

    def _adopt_replaced(self, path: str, identity: int) -> None:
        """A group that stands where one of ours was is ours to remove."""
        if path in self.journal.ledger.cgroups:
            record_done(self.journal, [Created(path, identity)])

    def is_owned(self, path: str, identity: int) -> bool:
        """Whether a group that stands was made by us."""
        return self._all_ours or self.journal.ledger.is_owned(path, identity)

    def reconcile_journal(self, seen: Observed, wanted: Collection[str]) -> list[str]:
        """Write down which groups stand where that could not be written before. The groups of the
        journal that are not there and are not to be made, because somebody else removed them.
        Raises QosletError or OSError."""
        groups = self.journal.ledger.cgroups
        made = [
            Created(path, seen.cgroups[path].identity)
            for path, (_, inode) in groups.items()
            if inode == 0 and path in seen.cgroups
        ]
        if made:
            self.journal.record(made)
        return [
            path
            for path in groups
            if path not in seen.cgroups and path not in wanted and self.is_below_root(path)
        ]

    def diff(self, node: Node, groups: Sequence[Cgroup]) -> CgroupDiff:
        """What is off in these groups. One that somebody else made inside the root is left."""
        seen = {}
        foreign = set()
        self.watch(groups)
        absent: set[str] = set()
        for group in groups:
            path = group.path
            if path is None:
                continue
            # nothing is in a group that is not there
            if path not in self._identities and path.rpartition("/")[0] in absent:
                continue
            there = self.read(path, by_runtime=group.by_runtime)
            if there is None:
                absent.add(path)
                continue
            seen[there.path] = there
            if group.by_runtime or self.is_foreign(path):
                continue
            if not self.is_owned(there.path, there.identity):
                foreign.add(there.path)
        wanted = tuple(
            group
            for group in self.with_overrides(groups)
            if group.path not in foreign and not (group.by_runtime and group.path not in seen)
        )
        observed = Observed(self._clock(), seen)
        rows = [
            row for row in compare(Plan(node, (), wanted, ()), observed) if row.verdict != "surplus"
        ]
        observed = with_cache(rows, observed, self.observer.cache)
        steps = ordered(rows, observed, self._shrink)
        waiting = eased(rows, observed, self._shrink)[1]
        return CgroupDiff(rows, steps, waiting, observed.cgroups, frozenset(foreign))

    def with_overrides(self, groups: Sequence[Cgroup]) -> Sequence[Cgroup]:
        """Groups with the values that are held instead of what is planned."""
        if not self.overrides:
            return groups
        return [with_overrides(group, self.overrides) for group in groups]

    def order_phases(self, phases: Iterable[Sequence[Difference]], off: CgroupDiff) -> list[Step]:
        """The steps of each phase in its safe order, one phase after the other."""
        observed = Observed(self._clock(), off.cgroups)
        return [step for rows in phases for step in ordered(rows, observed, self._shrink)]

    def perform(self, steps: Sequence[Step], owner_of: Callable[[Step], str]) -> BatchResult:
        """Do the steps in their order. An owner's first failure leaves the rest of its own, a
        group that could not be made all that would be done in it. Owner ``""`` fails alone."""
        batch = BatchResult()
        left = list(steps)
        while left:
            begun = self._clock()
            tried = self.driver.perform(left)
            if not tried:
                break
            self._count(tried, self._clock() - begun)
            batch.outcomes += tried
            left = left[len(tried) :]
            wrong = tried[-1]
            if wrong.error is None:
                continue
            owner = owner_of(wrong.step)
            batch.failed.setdefault(owner, f"{wrong.step.describe()}: {wrong.error}")
            if wrong.step.kind == "create":
                batch.not_created.add(wrong.step.path)
            failed = batch.failed.keys() - {""}
            left = [
                step
                for step in left
                if owner_of(step) not in failed and not at_or_below(step.path, batch.not_created)
            ]
        return batch

    def _count(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """Meter the groups that were made, written and removed; what a batch took is shared
        out evenly."""
        share = seconds / len(outcomes)
        took: dict[tuple[str, str], tuple[float, bool]] = {}
        for one in outcomes:
            kind = {"create": "create", "remove": "destroy"}.get(one.step.kind, "update")
            path = one.step.path
            if kind == "update" and ("create", path) in took:
                kind = "create"
            before, failed = took.get((kind, path), (0.0, False))
            took[kind, path] = before + share, failed or one.error is not None
            if one.error is None and one.step.kind in ("create", "remove"):
                self._identities.pop(path, None)
                self._changed.add(path)
        for (kind, _), (spent, failed) in took.items():
            self.meters[kind] = self.meters.get(kind, Meter()).add(spent, failed=failed)

    def poll_pending(self) -> list[Outcome]:
        """What came of steps that were pending."""
        return self.driver.settled()


def with_overrides(group: Cgroup, held: Mapping[Key, str]) -> Cgroup:
    """A group with what is held of its planned values."""
    path = group.path or ""
    if not any((path, row.file) in held for row in group.settings):
        return group
    rows = tuple(
        row
        if (path, row.file) not in held
        else replace(row, value=held[path, row.file], effective=None)
        for row in group.settings
    )
    return replace(group, settings=rows)


def at_or_below(path: str, groups: Collection[str]) -> bool:
    """Whether a path is one of ``groups`` or below one."""
    return any(is_at_or_below(path, group) for group in groups)
