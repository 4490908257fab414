"""Keeps the files that a policy names at their planned values, in cgroups of another manager. A file
that the policy no longer names gets back the value that it held before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.read_back import read_back
from qoslet.agent.state.step_results import FailureLimit
from qoslet.core.audit.kubelet_work import is_sum
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.guest.rewrites import Rewrites
from qoslet.core.node.node import Node
from qoslet.core.reconcile.drift import Cause, Difference, compare
from qoslet.core.reconcile.give_back import is_ours
from qoslet.core.reconcile.journal import (
    JournalState,
    Key,
    Released,
    Removed,
    Verified,
    record_done,
)
from qoslet.core.reconcile.steps import Outcome
from qoslet.core.reconcile.take_over import taken_over
from qoslet.core.resources.cgroup_tree import Cgroup, Plan

LIMIT = FailureLimit(same=3, total=60)
"""Failed writes after which a sync gives up."""
SETTLE_SECONDS = 3.0
"""How long to leave a wrong value alone that the kubelet or its runtime may be about to correct: only
pods that are read after that time tell that it is wrong."""
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


class _Pods(Struct, frozen=True):
    """When pods were read, and what they ask for where others are allocated."""

    at: float
    asked: Mapping[Key, str]


class PolicyFiles:
    """One for each guest. The executor's journal has what every file held before; ``clock`` gives
    monotonic seconds. ``allow`` permits the driver to write in cgroups of others; ``plugin`` gives the
    journal of the runtime's plugin, with what that has set."""

    def __init__(
        self,
        executor: CgroupExecutor,
        clock: Callable[[], float],
        allow: Callable[[Iterable[str]], None] = lambda paths: None,
        plugin: Callable[[], JournalState] = JournalState,
    ) -> None:
        self._executor = executor
        self._plugin = plugin
        self._allow = allow
        self._clock = clock
        self.rewrites = Rewrites()
        self.writes = self.failures = 0
        self._refused: dict[Key, tuple[str, float]] = {}
        self._observed: dict[str, ObservedCgroup] = {}
        self._unsettled: dict[Key, tuple[str | None, float]] = {}
        self._ask_at: float | None = None

    def sync(
        self,
        node: Node,
        cgroups: Sequence[Cgroup],
        *,
        complete: bool = True,
        pods_at: float = float("inf"),
        asked: Mapping[Key, str] | None = None,
    ) -> FilesSync:
        """Write the files of ``cgroups`` that differ, and restore those that are no longer among them.

        If ``complete`` is False, some pods of the node may be missing from ``cgroups``: then nothing is
        restored and no sum over pods is lowered. ``pods_at`` is when the pods were read, in monotonic
        seconds; ``asked`` are the values that pods ask for where other ones are allocated. Raises
        QosletError or OSError if the journal cannot be written; then no file is written either.
        """
        result = FilesSync()
        executor, journal = self._executor, self._executor.journal
        self._take_pending(result)
        wanted = executor.with_overrides(cgroups)
        executor.watch(wanted)
        plugin = self._plugin()
        executor.watch_files({file for _, file in plugin.files})
        paths = [one.path for one in wanted if one.path is not None]
        names = (*paths, *journal.ledger.names, *plugin.names)
        seen = self._observed = self._read(dict.fromkeys(names))
        self._forget_gone(seen)
        if taken := taken_over(journal.ledger, plugin, seen, node.host.page_size):
            self.adopt({one.path for one in taken})
            journal.record(taken)
        rows = self._due(node, wanted, seen, plugin, result, _Pods(pods_at, asked or {}))
        if not complete:
            rows = [row for row in rows if not self._lowers_sum(wanted, row)]
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

    def _lowers_sum(self, wanted: Sequence[Cgroup], row: Difference) -> bool:
        """Whether the row lowers a sum over pods whose file holds a value of ours."""
        names = {one.path: one.name for one in wanted}
        old, new = row.found or "", row.wanted or ""
        is_ours = (row.path, row.file) in self._executor.journal.ledger.files
        falls = new.isdecimal() and (old == "max" or (old.isdecimal() and int(new) < int(old)))
        return is_ours and falls and is_sum(names[row.path].rpartition("/")[2], row.file)

    def adopt(self, paths: Iterable[str]) -> None:
        """Record in the journal that files of these cgroups are about to be written, and permit it."""
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
        times += [] if self._ask_at is None else [self._ask_at]
        due = self.rewrites.next_at()
        return min([*times, *([] if due is None else [due])], default=None)

    def _read(self, paths: Iterable[str]) -> dict[str, ObservedCgroup]:
        """The cgroups that exist, as read now."""
        looked = {path: self._executor.observer.read_cgroup(path) for path in paths}
        return {path: one for path, one in looked.items() if one is not None}

    def _forget_gone(self, seen: Mapping[str, ObservedCgroup]) -> None:
        """Remove cgroups from the journal that are gone, or that were replaced by others of their name."""
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
        plugin: JournalState,
        result: FilesSync,
        pods: _Pods,
    ) -> list[Difference]:
        """The differences to write now: a file's first write at once, a value that another process has
        reset as ``rewrites`` allows, and what the kubelet or the plugin may still write after it has
        settled."""
        there = tuple(one for one in wanted if one.path in seen)
        now, ledger = self._clock(), self._executor.journal.ledger
        page, due, off = node.host.page_size, list[Difference](), set[Key]()
        waiting = list[float]()
        names = {one.path: one.name for one in there}
        for row in compare(Plan(node, (), there, ()), Observed(now, seen)):
            key = row.path, row.file
            if row.verdict == "unread" and row.file:
                result.missing.append(key)
            if row.verdict != "differs" or row.cause is not Cause.PLANNED:
                continue
            off.add(key)
            found = row.found or ""
            may, is_reset = True, key in ledger.files and not is_ours(ledger, key, found, page)
            theirs = _is_kubelets(names[row.path], row.file, is_reset=is_reset)
            theirs = theirs or _is_plugins(plugin, key, found, page)
            if self._is_unsettled(row, pods, now, page, theirs=theirs):
                waiting.append(self._unsettled[key][1])
                continue
            if is_reset:
                known = self.rewrites.resets
                may = self.rewrites.reset(key, found, now)
                if self.rewrites.resets != known:
                    result.resets[key] = found
            if may and self._may_try(key, now):
                due.append(row)
        self._take_held(there, seen, off, page)
        self._unsettled = {key: one for key, one in self._unsettled.items() if key in off}
        # pods that were read before a difference was found are read again at once
        is_news = any(at > max(pods.at, now - SETTLE_SECONDS) for at in waiting)
        self._ask_at = now + (0.0 if is_news else SETTLE_SECONDS) if waiting else None
        return due

    def _is_unsettled(
        self, row: Difference, pods: _Pods, now: float, page: int, *, theirs: bool
    ) -> bool:
        """Whether the difference may end by itself: ``theirs`` if the kubelet or the plugin writes the
        file anyway, else if the kubelet may have written it for a resize."""
        key, found = (row.path, row.file), row.found or ""
        if not (theirs or _may_be_resize(row.file, found)):
            return False
        wait = SETTLE_SECONDS if theirs else 0.0
        if not self._has_settled(key, row.wanted, now, pods.at, wait):
            return True
        # a kubelet writes what it has allocated before the status says so
        asked = pods.asked.get(key)
        return asked is not None and same(row.file, asked, found, page)

    def _take_held(
        self,
        there: Sequence[Cgroup],
        seen: Mapping[str, ObservedCgroup],
        off: set[Key],
        page: int,
    ) -> None:
        """Note the files that hold their planned value. One that its owner has set to that value itself
        is no longer ours to restore."""
        now, journal = self._clock(), self._executor.journal
        keys = [(one.path or "", row.file) for one in there for row in one.settings]
        theirs = list[Released]()
        for key in keys:
            if key in off:
                continue
            self.rewrites.held(key, now)
            self._refused.pop(key, None)
            found = seen[key[0]].values.get(key[1])
            held = found is not None and key in journal.ledger.files
            if held and not is_ours(journal.ledger, key, found or "", page):
                theirs.append(Released(*key))
        if theirs:
            record_done(journal, theirs)

    def _has_settled(
        self, key: Key, wanted: str | None, now: float, pods_at: float, wait: float
    ) -> bool:
        """Whether the difference has lasted: pods that were read ``wait`` seconds after it was found still
        plan the same value. Without ``wait`` newer pods are enough, and if none can be read,
        ``SETTLE_SECONDS``."""
        known = self._unsettled.get(key)
        if known is None or known[0] != wanted:
            known = self._unsettled[key] = wanted, now
        late = not wait and now >= known[1] + SETTLE_SECONDS
        return late or pods_at >= known[1] + wait

    def needs_pods(self) -> bool:
        """Whether the pods are to be read again, since something waits for that."""
        return self._ask_at is not None and self._clock() >= self._ask_at

    def _may_try(self, key: Key, now: float) -> bool:
        """Whether the file may be written: its last write was not refused within ``RETRY_SECONDS``."""
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
        read_back(executor, outcomes)
        self._verify(outcomes)

    def _take_pending(self, result: FilesSync) -> None:
        """Take in the results of writes that waited for memory."""
        for one in self._executor.poll_pending():
            if one.error is not None:
                self._fail(one, result)

    def _take(self, outcomes: Sequence[Outcome], back: set[Key], result: FilesSync) -> None:
        """Take in the results of steps; a restored file leaves the journal."""
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
        """Take in a refused write: it is tried again after ``RETRY_SECONDS``, and reported if the error is
        new. A cgroup that has gone meanwhile is no failure."""
        step, error = outcome.step, outcome.error or ""
        key = step.path, step.file
        if self._executor.observer.identity(step.path) is None:
            return
        self.failures += 1
        if self._refused.get(key, ("", 0.0))[0] != error:
            result.errors.append(_fault(key, error))
        self._refused[key] = error, self._clock() + RETRY_SECONDS

    def _verify(self, outcomes: Sequence[Outcome]) -> None:
        """Forget the earlier values of our files once no file holds one of them: from then on such a value
        was written by another process."""
        earlier = self._executor.journal.ledger.earlier
        written = {
            (outcome.step.path, outcome.step.file)
            for outcome in outcomes
            if outcome.error is None and not outcome.pending
        }
        unsure = earlier.keys() - written
        cgroups = self._read({path: None for path, _ in unsure})
        for path, file in unsure:
            value = cgroups[path].values.get(file) if path in cgroups else None
            if value is None or any(same(file, old, value) for old in earlier[path, file]):
                return
        if earlier:
            record_done(self._executor.journal, [Verified()])


def _is_kubelets(name: str, file: str, *, is_reset: bool) -> bool:
    """Whether the kubelet or its runtime may be about to write the file: CPU files, which they write with
    each pod and each resize, and sums over pods that were reset."""
    return file.startswith("cpu.") or (is_reset and is_sum(name.rpartition("/")[2], file))


def _may_be_resize(file: str, found: str) -> bool:
    """Whether a kubelet that sets Memory QoS itself may have written the value for a resize: it is not
    that of a new cgroup, in which nothing is protected or throttled."""
    return file.startswith("memory.") and found not in ("0", "max")


def _is_plugins(plugin: JournalState, key: Key, found: str, page: int) -> bool:
    """Whether a file holds what the runtime's plugin has set, which learns of a resize first."""
    return key in plugin.files and same(key[1], plugin.files[key][1], found, page)


def _fault(key: Key, error: str) -> str:
    """The message about a refused write."""
    return f"{key[0]}/{key[1]}: {error}"
