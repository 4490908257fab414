"""Keeps the files that a policy names as planned, in cgroups of another manager; each of them holds
again what it held before once it is no longer named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from qoslet.agent.state.cgroup_executor import CgroupExecutor, FailureLimit
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.guest.rewrites import RewriteBudget, Rewrites
from qoslet.core.node.node import Node
from qoslet.core.reconcile.drift import Cause, Difference, compare
from qoslet.core.reconcile.give_back import is_ours
from qoslet.core.reconcile.journal import Key, ReadBack, Released, Removed, record_done
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.core.resources.cgroup_tree import Cgroup, Plan

LIMIT = FailureLimit(same=3, total=60)
"""When one sync gives a file up, and when itself."""
RETRY_SECONDS = 60.0
"""Until a write that the kernel or systemd refused is tried again."""


class FilesSync(Struct):
    """What one sync of the files did. ``missing`` are planned files that are absent here."""

    written: dict[Key, str] = {}
    restored: dict[Key, str] = {}
    resets: dict[Key, str] = {}
    errors: list[str] = []
    notes: list[str] = []
    waiting: list[str] = []
    missing: list[Key] = []


class PolicyFiles:
    """One for each guest. The executor's journal has what every file held before; ``clock`` gives
    monotonic seconds. ``allow`` tells the driver that it may write in cgroups of others."""

    def __init__(
        self,
        executor: CgroupExecutor,
        clock: Callable[[], float],
        budget: RewriteBudget | None = None,
        allow: Callable[[Iterable[str]], None] = lambda paths: None,
    ) -> None:
        self._executor = executor
        self._allow = allow
        self._clock = clock
        self.rewrites = Rewrites(budget)
        self.writes = self.failures = 0
        self._refused: dict[Key, tuple[str, float]] = {}
        self._observed: dict[str, ObservedCgroup] = {}

    def sync(self, node: Node, cgroups: Sequence[Cgroup], *, complete: bool = True) -> FilesSync:
        """Write what differs, restore what is not among ``cgroups`` any more. Without ``complete``
        nothing is restored: what is absent there may be on the node all the same. Raises
        QosletError or OSError where the journal cannot be written: then nothing is."""
        result = FilesSync()
        executor, journal = self._executor, self._executor.journal
        self._take_pending(result)
        wanted = executor.with_overrides(cgroups)
        executor.watch(wanted)
        paths = [one.path for one in wanted if one.path is not None]
        seen = self._observed = self._read(dict.fromkeys([*paths, *journal.ledger.names]))
        self._forget_gone(seen)
        rows = self._due(node, wanted, seen, result)
        back = list[Difference]()
        if complete:
            given = executor.give_back(node, seen, wanted)
            back = list(given.rows)
            result.notes += given.notes
            if given.released:
                journal.record(given.released)
        self._write(rows, back, seen, result)
        keys = {(one.path or "", row.file) for one in wanted for row in one.settings}
        self.rewrites.keep(keys)
        for key in self._refused.keys() - keys - journal.ledger.files.keys():
            del self._refused[key]
        return result

    def adopt(self, paths: Iterable[str]) -> None:
        """Write down that files of these cgroups are about to be written, and let the driver."""
        known = self._executor.journal.ledger.adopted
        seen = {path: self._observed[path].identity for path in paths if path in self._observed}
        self._allow(seen)
        if any(known.get(path) != inode for path, inode in seen.items()):
            self._executor.adopt(seen)

    @property
    def faults(self) -> list[str]:
        """The writes that are refused."""
        return [_fault(key, error) for key, (error, _) in self._refused.items()]

    def observed(self, path: str) -> ObservedCgroup | None:
        """A cgroup as the last sync has read it."""
        return self._observed.get(path)

    def next_at(self) -> float | None:
        """When a file may be written again, or is tried again, in monotonic seconds."""
        times = [at for _, at in self._refused.values()]
        due = self.rewrites.next_at()
        return min([*times, *([] if due is None else [due])], default=None)

    def _read(self, paths: Iterable[str]) -> dict[str, ObservedCgroup]:
        """Those of the cgroups that exist."""
        looked = {path: self._executor.observer.read_cgroup(path) for path in paths}
        return {path: one for path, one in looked.items() if one is not None}

    def _forget_gone(self, seen: Mapping[str, ObservedCgroup]) -> None:
        """Cgroups that went, with their files, hold nothing of ours; one in the place of another has
        nothing of ours either."""
        ledger = self._executor.journal.ledger
        gone = [
            Removed(path, done=True)
            for path in ledger.names
            if path not in seen
            or ledger.adopted.get(path, seen[path].identity) != seen[path].identity
        ]
        if gone:
            record_done(self._executor.journal, gone)

    def _due(
        self,
        node: Node,
        wanted: Sequence[Cgroup],
        seen: Mapping[str, ObservedCgroup],
        result: FilesSync,
    ) -> list[Difference]:
        """The differences to end now: first writes at once, what others have reset as the budget
        allows."""
        there = tuple(one for one in wanted if one.path in seen)
        now, ledger = self._clock(), self._executor.journal.ledger
        page, due, off = node.host.page_size, list[Difference](), set[Key]()
        for row in compare(Plan(node, (), there, ()), Observed(now, seen)):
            key = row.path, row.file
            if row.verdict == "unread" and row.file:
                result.missing.append(key)
            if row.verdict != "differs" or row.cause is not Cause.PLANNED:
                continue
            off.add(key)
            found = row.found or ""
            may = True
            if key in ledger.files and not is_ours(ledger, key, found, page):
                known = self.rewrites.resets
                may = self.rewrites.reset(key, found, now)
                if self.rewrites.resets != known:
                    result.resets[key] = found
            if may and self._may_try(key, now):
                due.append(row)
        for one in there:
            for setting in one.settings:
                key = one.path or "", setting.file
                if key not in off:
                    self.rewrites.held(key, now)
                    self._refused.pop(key, None)
        return due

    def _may_try(self, key: Key, now: float) -> bool:
        """Whether a write was not refused a short while ago."""
        return key not in self._refused or now >= self._refused[key][1]

    def _write(
        self,
        rows: Sequence[Difference],
        back: Sequence[Difference],
        seen: Mapping[str, ObservedCgroup],
        result: FilesSync,
    ) -> None:
        """Write and restore, each value after its entry in the journal."""
        executor, journal = self._executor, self._executor.journal
        diff = executor.order([*rows, *back], Observed(self._clock(), seen))
        result.waiting += [one.describe() for one in diff.waiting]
        if not diff.steps:
            return
        reset = [
            Released(*key)
            for row in rows
            if (key := (row.path, row.file)) in self.rewrites.contests
            and self.rewrites.contests[key].is_reset
            and key in journal.ledger.files
        ]
        if reset:
            # what the other manager has written is what this file holds before from now on
            journal.record(reset)
        self.adopt({step.path for step in diff.steps})
        outcomes = executor.perform(diff.steps, limit=LIMIT).outcomes
        self._take(outcomes, {(row.path, row.file) for row in back}, result)
        self._read_back(outcomes)

    def _take_pending(self, result: FilesSync) -> None:
        """What came of writes that waited for memory."""
        for one in self._executor.poll_pending():
            if one.error is not None:
                self._fail(one, result)

    def _take(self, outcomes: Sequence[Outcome], back: set[Key], result: FilesSync) -> None:
        """Count what came of steps. A file that was restored is ours no longer."""
        now, released = self._clock(), list[Released]()
        for one in outcomes:
            step = one.step
            key = step.path, step.file
            if one.error is not None:
                self._fail(one, result)
                continue
            self._refused.pop(key, None)
            if key in back:
                result.restored[key] = step.value
                released.append(Released(*key))
                continue
            self.writes += 1
            result.written[key] = step.value
            if key in self.rewrites.contests and self.rewrites.contests[key].is_reset:
                self.rewrites.rewritten(key, now)
        if released:
            record_done(self._executor.journal, released)

    def _fail(self, outcome: Outcome, result: FilesSync) -> None:
        """A write was refused: it is tried again after a while, and said when it is another fault.
        None was where the cgroup went meanwhile."""
        step, error = outcome.step, outcome.error or ""
        key = step.path, step.file
        if self._executor.observer.identity(step.path) is None:
            return
        self.failures += 1
        if self._refused.get(key, ("", 0.0))[0] != error:
            result.errors.append(_fault(key, error))
        self._refused[key] = error, self._clock() + RETRY_SECONDS

    def _read_back(self, outcomes: Sequence[Outcome]) -> None:
        """Write down what the kernel made of the values, which tells them from those of others."""
        done: dict[Key, Step] = {
            (one.step.path, one.step.file): one.step
            for one in outcomes
            if one.error is None and not one.pending
        }
        journal, read = self._executor.journal, self._read({path: None for path, _ in done})
        entries = [
            ReadBack(*key, found)
            for key, step in done.items()
            if key in journal.ledger.files
            and key[0] in read
            and (found := read[key[0]].values.get(key[1])) is not None
            and not same(key[1], step.value, found)
        ]
        if entries:
            record_done(journal, entries)


def _fault(key: Key, error: str) -> str:
    """A write that was refused, for people."""
    return f"{key[0]}/{key[1]}: {error}"
