"""Observes cgroups, compares them with the plan and performs the steps, each for its owner.

A failure belongs to the pod that it happened to: the rest of its steps are left out, those of
others are done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.agent.state.cgroup_changes import CgroupChanges
from qoslet.agent.state.memory_journal import MemoryJournal
from qoslet.agent.state.ownership import Ownership
from qoslet.agent.state.runtime_cgroups import RuntimeCgroups
from qoslet.agent.state.step_results import BatchResult, CgroupDiff, FailureLimit
from qoslet.agent.state.unsettled_writes import UnsettledWrites
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.drift import Difference, compare
from qoslet.core.reconcile.give_back import GiveBack, give_back, written_files
from qoslet.core.reconcile.journal import Adopted, Created, Key, record_done
from qoslet.core.resources.cgroup_tree import Cgroup, Plan

if TYPE_CHECKING:
    from qoslet.agent.ports import Driver, Journal, Observer
    from qoslet.agent.state.meters import Meters
    from qoslet.core.node.node import Node
    from qoslet.core.reconcile.limit_shrink import Shrink
    from qoslet.core.reconcile.steps import Outcome, Step


def no_owner(step: Step) -> str:
    """The owner of steps that fail alone."""
    return ""


class CgroupExecutor:
    """The only place of the agent that observes cgroups and performs steps. ``clock`` gives
    monotonic seconds; ``overrides`` are values that count instead of the planned ones; ``allow`` lets
    the driver write in cgroups of others."""

    def __init__(
        self,
        ownership: Ownership,
        driver: Driver,
        observer: Observer,
        clock: Callable[[], float],
        *,
        journal: Journal | None = None,
        shrink: Shrink = "converge",
        allow: Callable[[Collection[str]], None] = lambda paths: None,
    ) -> None:
        self.ownership = ownership
        self.root = ownership.root
        self.driver = driver
        self.observer = observer
        self.journal: Journal = journal or MemoryJournal()
        self.runtime_cgroups = RuntimeCgroups(self.root, self.journal)
        self.meters: Meters = {}
        self.notes: list[str] = []
        self.overrides: dict[Key, str] = {}
        self.followed: Callable[[Outcome], None] | None = None
        """Told of each step that was tried."""
        self._clock = clock
        self._allow = allow
        self._shrink = shrink
        self._observed: Observed | None = None
        self._changed: set[str] = set()
        self._unsettled = UnsettledWrites(self.journal.ledger.values_before())
        self._changes = CgroupChanges()
        self._files: set[str] = set()

    def watch(self, groups: Iterable[Cgroup]) -> None:
        """Read the planned files of these cgroups, besides the known ones."""
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
        """Forget what ``observe_all`` has read."""
        self._observed = None
        self._changed.clear()

    def read(self, path: str, *, by_runtime: bool = False) -> ObservedCgroup | None:
        """One cgroup, None where it is absent. What another process did to one of ours is noted;
        one ``by_runtime`` comes and goes with its container."""
        if (
            self._observed is not None
            and self.ownership.contains(path)
            and path not in self._changed
        ):
            seen = self._observed.cgroups.get(path)
        else:
            seen = self.observer.read_cgroup(path)
        change = self._changes.see(path, seen.identity if seen else None, self.is_owned)
        if change:
            self._unsettled.forget(path, self.journal.ledger)
        if by_runtime:
            return seen
        if change == "deleted":
            deleted = "cgroup was deleted by another process"
            what = "systemd ended the scope" if path.endswith(".scope") else deleted
            self.notes.append(f"{path}: {what}; recreating it")
        elif change == "recreated" and seen is not None:
            self.notes.append(
                f"{path}: cgroup was recreated by another process; rewriting its values"
            )
            self._adopt_replaced(path, seen.identity)
        return seen

    def is_unchanged(self, path: str) -> bool:
        """Whether a cgroup is the one that was read last."""
        known = self._changes.inode(path)
        return known is not None and known == self.observer.identity(path)

    def _adopt_replaced(self, path: str, identity: int) -> None:
        """A cgroup in the place of one of ours is ours to remove."""
        if path in self.journal.ledger.cgroups:
            record_done(self.journal, [Created(path, identity)])

    def is_owned(self, path: str, identity: int) -> bool:
        """Whether we created an existing cgroup."""
        return self.ownership.is_owned(path, identity)

    def is_foreign(self, path: str) -> bool:
        """Whether a cgroup is another's to create and remove."""
        return self.ownership.is_foreign(path)

    def reconcile_journal(self, seen: Observed, wanted: Collection[str]) -> list[str]:
        """Write down which cgroups exist where that could not be written before. Returns the
        cgroups of the journal that are absent and not ``wanted``. Raises QosletError or
        OSError."""
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
            if path not in seen.cgroups and path not in wanted and self.ownership.contains(path)
        ]

    def diff(self, node: Node, groups: Sequence[Cgroup]) -> CgroupDiff:
        """What differs in these cgroups. One that another process created inside the root is left
        alone."""
        seen = {}
        foreign = set()
        self.watch(groups)
        absent: set[str] = set()
        for group in groups:
            path = group.path
            if path is None:
                continue
            # an absent cgroup has none below it
            if path not in self._changes and path.rpartition("/")[0] in absent:
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
            row
            for row in compare(Plan(node, (), wanted, ()), observed)
            if row.verdict != "surplus" and self.runtime_cgroups.is_ours(row, seen)
        ]
        self.notes += self._unsettled.changed(rows, self.journal.ledger, seen)
        return self.order(rows, observed, foreign=frozenset(foreign))

    def order(
        self,
        rows: Sequence[Difference],
        observed: Observed,
        *,
        foreign: frozenset[str] = frozenset(),
    ) -> CgroupDiff:
        """The steps that end the differences that we may end, in their safe order, and the limits
        that wait; page cache that can be reclaimed is read where that decides."""
        rows = [row for row in rows if self.ownership.permits(row)]
        if not rows:
            return CgroupDiff(cgroups=observed.cgroups, foreign=foreign)
        # imported for differences: a pass with nothing to do has none
        from qoslet.core.reconcile.limit_shrink import eased, with_cache
        from qoslet.core.reconcile.step_order import ordered

        observed = with_cache(rows, observed, self.observer.reclaimable_cache)
        steps = ordered(rows, observed, self._shrink)
        waiting = eased(rows, observed, self._shrink)[1]
        return CgroupDiff(rows, steps, waiting, observed.cgroups, foreign)

    def with_overrides(self, groups: Sequence[Cgroup]) -> Sequence[Cgroup]:
        """Cgroups with the overrides instead of what is planned."""
        if not self.overrides:
            return groups
        return [_overridden(group, self.overrides) for group in groups]

    def order_phases(
        self, phases: Iterable[Sequence[Difference]], cgroups: Mapping[str, ObservedCgroup]
    ) -> list[Step]:
        """The steps of each phase in its safe order, one phase after the other."""
        from qoslet.core.reconcile.step_order import ordered

        observed = Observed(self._clock(), cgroups)
        return [step for rows in phases for step in ordered(rows, observed, self._shrink)]

    def observe_written(
        self, excluded: Collection[str | None], read: Callable[[str], ObservedCgroup | None]
    ) -> dict[str, ObservedCgroup]:
        """The cgroups of others, and the root, that hold values of ours, but for ``excluded``."""
        state = self.journal.ledger
        paths = [
            path
            for path in dict.fromkeys((*state.adopted, self.root))
            if path not in excluded and written_files(state, path)
        ]
        found = {path: read(path) for path in paths}
        return {path: one for path, one in found.items() if one is not None}

    def give_back(
        self, node: Node, cgroups: Mapping[str, ObservedCgroup], planned: Sequence[Cgroup]
    ) -> GiveBack:
        """What is to be given back in these cgroups."""
        page = node.host.page_size
        return give_back(self.journal.ledger, cgroups, planned, node.hierarchy, page)

    def adopt(self, identities: Mapping[str, int]) -> None:
        """Write down that files of these cgroups of others are about to be written, and let the driver."""
        known = self.journal.ledger.adopted
        new = [Adopted(*one) for one in sorted(identities.items()) if known.get(one[0]) != one[1]]
        self.journal.record(new)
        self._allow(identities)

    def perform(
        self,
        steps: Sequence[Step],
        owner_of: Callable[[Step], str] = no_owner,
        limit: FailureLimit | None = None,
    ) -> BatchResult:
        """Do the steps in their order. An owner's first failure leaves out the rest of its own, a
        cgroup that could not be created all that would be done in it. Owner ``""`` fails
        alone."""
        # imported for steps: a pass with nothing to do has none
        from qoslet.agent.state.meters import add_outcomes

        batch = BatchResult()
        failures: Counter[tuple[str, str | None]] = Counter()
        left = list(steps)
        self._unsettled.begin(left, self.journal.ledger)
        while left and (limit is None or failures.total() < limit.total):
            begun = self._clock()
            tried = self.driver.perform(left)
            if not tried:
                break
            add_outcomes(self.meters, tried, self._clock() - begun)
            self._notify_follower(tried)
            self._forget_changed(tried)
            batch.outcomes += tried
            left = left[len(tried) :]
            wrong = tried[-1]
            if wrong.error is None:
                continue
            owner, file = owner_of(wrong.step), wrong.step.file
            batch.failed.setdefault(owner, f"{wrong.step.describe()}: {wrong.error}")
            failures[file, wrong.errno_name] += 1
            if wrong.step.kind == "create":
                batch.not_created.add(wrong.step.path)
            failed = batch.failed.keys() - {""}
            dropped = limit is not None and file and failures[file, wrong.errno_name] >= limit.same
            left = [
                step
                for step in left
                if owner_of(step) not in failed
                and not any(is_at_or_below(step.path, one) for one in batch.not_created)
                and not (dropped and step.file == file)
            ]
        return batch

    def _forget_changed(self, outcomes: Sequence[Outcome]) -> None:
        """What was read of these cgroups is known no longer; one created or removed is another one."""
        for one in [one for one in outcomes if one.error is None]:
            self._changed.add(one.step.path)
            if one.step.kind in ("create", "remove"):
                self._changes.forget(one.step.path)
                made = self.journal.ledger.cgroups.get(one.step.path)
                if one.step.kind == "create" and made is not None:
                    self._changes.made(one.step.path, made[1])

    def poll_pending(self) -> list[Outcome]:
        """What came of steps that were pending."""
        late = self.driver.poll_pending()
        self._notify_follower([one for one in late if not one.pending])
        return late

    def _notify_follower(self, outcomes: Sequence[Outcome]) -> None:
        """Tell who follows the steps, and know which values are in the kernel."""
        self._unsettled.settle(outcomes)
        if self.followed is not None:
            for one in outcomes:
                self.followed(one)


def _overridden(group: Cgroup, overrides: Mapping[Key, str]) -> Cgroup:
    """A cgroup with the overrides of its planned values."""
    path = group.path or ""
    if not any((path, row.file) in overrides for row in group.settings):
        return group
    rows = tuple(
        row
        if (path, row.file) not in overrides
        else replace(row, value=overrides[path, row.file], effective=None)
        for row in group.settings
    )
    return replace(group, settings=rows)
