"""Performs steps on this machine's cgroup file systems; matches ``agent.ports.Driver``.

Nothing is written outside the root that it is given, except that on v2 controllers are enabled
in the groups above it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from errno import EBUSY, ENODEV, ENOENT
from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import UNPLANNED, controller, knob
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.notes import Notes
from qoslet.core.reconcile.journal import (
    Created,
    Entry,
    Recorder,
    Removed,
    record_done,
)
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.errors import CannotDo, QosletError
from qoslet.host.cgroupfs.intents import intents, making
from qoslet.host.cgroupfs.kill import below, kill, members
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.cgroupfs.reclaim import by_hand, write
from qoslet.host.cgroupfs.write_errors import (
    CgroupError,
    Deed,
    PendingWrite,
    cgroup_error,
    errno_name,
    no_domain,
)
from qoslet.host.linux.openat import MountedTree, checked, file_name, parent

if TYPE_CHECKING:
    from qoslet.host.cgroupfs.async_writes import AsyncWrites

REMOVE_TRIES = 10
"""A group whose last process is just ending is busy for a moment: 1 ms, doubled each time."""


class Cgroupfs:
    """The driver for one root. ``files`` are names that may be written besides known settings.

    ``journal`` and ``slow`` may be set later, before the first step. With ``slow`` no write
    waits for memory to be taken back: such steps are pending. Not safe for several threads.
    ``oom_ends_scopes``: containers' cgroups are scopes that systemd ends after an OOM kill.
    """

    def __init__(
        self,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        root: str,
        *,
        files: Iterable[str] = (),
        sleep: Callable[[float], None] = time.sleep,
        slow: AsyncWrites | None = None,
    ) -> None:
        self.hierarchy = hierarchy
        self.journal: Recorder | None = None
        self.root = checked(root)
        self.layout = layout_of(hierarchy, mounts)
        self.others: set[str] = set()
        """Groups of somebody else in which files may be written: never made, never removed."""
        self.oom_ends_scopes = False
        self._files = frozenset(files)
        self._sleep = sleep
        self.slow = slow
        self.notes = Notes()
        self._new: set[str] = set()
        self._known: set[str] = set()
        self._shown: set[str] = set()
        self._made: list[Entry] = []
        if not self.root:
            raise CannotDo("the root of the hierarchy cannot be managed", hint="such as /qoslet")

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        """Do each step; stop after the first that fails. One outcome for each step tried."""
        if not steps:
            return []
        befores: Mapping[int, str] = {}
        if self.journal is not None:
            try:
                befores = self._befores(steps) if self.journal.wants_before else {}
                self._record(self._intents(steps, befores))
            except (QosletError, OSError) as error:
                return [Outcome(steps[0], error=f"nothing done: the journal: {error}")]
        outcomes = self._do(steps, befores)
        self._record_made()
        return outcomes

    def _do(self, steps: Sequence[Step], befores: Mapping[int, str]) -> list[Outcome]:
        """The steps in their order, up to the first that fails. ``befores`` by step number."""
        outcomes: list[Outcome] = []
        for number, step in enumerate(steps):
            outcomes.append(self._one(step, befores.get(number)))
            if outcomes[-1].error is not None:
                break
        return outcomes

    def _record_made(self) -> None:
        """Write down what came to be, now or before the next entries."""
        made, self._made, self._new = self._made, [], set()
        if self.journal is not None and made:
            record_done(self.journal, made)

    def _record(self, entries: Sequence[Entry]) -> None:
        """Append to the journal, if there is one."""
        if self.journal is not None and entries:
            self.journal.record(entries)

    def _intents(self, steps: Sequence[Step], befores: Mapping[int, str]) -> list[Entry]:
        """What the steps are going to do."""
        return intents(steps, befores, self._unmade, self._exists)

    def _befores(self, steps: Sequence[Step]) -> dict[int, str]:
        """The values that ``set`` steps replace, by the step's number, where they can be read."""
        found = {}
        for number, step in enumerate(steps):
            if step.kind == "set":
                try:
                    path, tree = self._place(step)
                    found[number] = tree.read(path, step.file)
                except (CgroupError, OSError):
                    continue
        return found

    def _one(self, step: Step, before: str | None) -> Outcome:
        """One step, its failure turned into words."""
        try:
            match step.kind:
                case "set":
                    self._set(step, before)
                case "create":
                    self._create(self._mine(step.path))
                case "attach":
                    self._attach(self._mine(step.path), step.pid)
                case "remove":
                    self._remove(self._mine(step.path))
        except PendingWrite:
            return Outcome(step, before, pending=True)
        except (CgroupError, OSError) as error:
            return self._failed(step, before, error)
        return Outcome(step, before)

    def _failed(self, step: Step, before: str | None, error: CgroupError | OSError) -> Outcome:
        """The outcome of a step that was refused."""
        if isinstance(error, OSError):
            number = error.errno or 0
            said = self._refused(step.kind, step.path, number, step.file, step.value)
            return Outcome(step, before, str(said), errno_name(number))
        return Outcome(step, before, str(error), errno_name(error.number) if error.number else None)

    def _refused(self, deed: Deed, path: str, number: int, file: str, value: str) -> CgroupError:
        """The refusal with the mount point that the file belongs to."""
        tree = (self.layout.tree_of(controller(file)) if file else None) or self.layout.trees[0]
        kind = self.layout.not_domain(path) if deed == "set" and number == ENOENT else ""
        if kind:
            return no_domain(tree.point + path, file, kind)
        return cgroup_error(deed, tree.point + path, number, file, value)

    def _mine(self, path: str) -> str:
        """``path`` if it is a plain one below our root. Raises ``CgroupError``."""
        try:
            plain = checked(path)
        except ValueError as error:
            raise CgroupError(str(error)) from None
        if not is_at_or_below(plain, self.root):
            raise CgroupError(f"{path} is not below {self.root}: qoslet writes nothing else")
        return plain

    def _place(self, step: Step) -> tuple[str, MountedTree]:
        """Where a ``set`` writes. Raises ``CgroupError``."""
        path = checked(step.path) if step.path in self.others else self._mine(step.path)
        try:
            if file_name(step.file) not in self._files and step.file not in UNPLANNED:
                knob(step.file)
        except ValueError as error:
            raise CgroupError(str(error)) from None
        tree = self.layout.tree_of(controller(step.file))
        if tree is None:
            raise CgroupError(
                f"{path}/{step.file}: the controller {controller(step.file)} is not mounted; "
                "mount it, or plan for a node without it (--node)"
            )
        return path, tree

    def poll_pending(self) -> list[Outcome]:
        """What came of pending steps: of one that is over once, of one that goes on each time."""
        if self.slow is None or (late := self.slow.settled()) is None:
            return []
        if late.error is not None:
            return [self._failed(late.step, late.before, late.error)]
        done = Outcome(late.step, late.before, pending=late.pending)
        return [self._one(late.step, late.before) if late.anew else done]

    def _set(self, step: Step, before: str | None = None) -> None:
        """Write one value. Raises ``PendingWrite`` where it goes on in the kernel."""
        path, tree = self._place(step)
        try:
            self._write_value(tree, path, step, before)
        except OSError as error:
            if error.errno not in (ENOENT, ENODEV) or not self.layout.regain(path):
                raise
            self.notes.keep(f"{path}: an ancestor disabled a controller; it is enabled again")
            self._write_value(tree, path, step, before)
        self.layout.written(path, step.file)

    def _write_value(self, tree: MountedTree, path: str, step: Step, before: str | None) -> None:
        """One write, where it may wait in the thread for such writes."""
        slow = self.slow
        if slow is not None and path not in self._new and slow.concerns(tree, path, step):
            slow.write(tree, path, step, before)
        else:
            write(tree, path, step)

    def stands(self, path: str) -> None:
        """A group is there already, so it is not ours to make."""
        self._known.add(checked(path))

    def _unmade(self, path: str) -> list[str]:
        """The groups from our root down to ``path`` that we do not know to exist."""
        chain = []
        while path not in self._known and is_at_or_below(path, self.root):
            chain.append(path)
            path = parent(path)
        return chain[::-1]

    def _create(self, path: str) -> None:
        """Make a group and those above it up to our root; one that is there is completed."""
        try:
            self._make([*self._unmade(parent(path)), path])
        except FileNotFoundError:
            # A group above that we made was removed by somebody.
            self._known.clear()
            chain = self._unmade(path)
            self._record(making(chain, {}, set(), self._exists))
            self._make(chain)

    def _in_journal(self, path: str) -> bool:
        """Whether the journal names the group that stands there."""
        ledger = getattr(self.journal, "ledger", None)
        inode = self.identity(path)
        return inode is not None and ledger is not None and bool(ledger.is_owned(path, inode))

    def _make(self, chain: Sequence[str]) -> None:
        """Make groups, parents first."""
        for group in chain:
            if self.layout.create(group):
                self._made.append(Created(group, self.layout.trees[0].inode(group)))
                self._new.add(group)
            elif group in self._known and not self._in_journal(group):
                # a runtime makes the cgroups above a container's where ours are gone
                self._made.append(Created(group, self.layout.trees[0].inode(group)))
            self._known.add(group)

    def _attach(self, path: str, pid: int) -> None:
        """Move a process into the group, in every hierarchy."""
        if pid <= 1 or pid == os.getpid():
            raise CgroupError(f"{path}: PID {pid} is not moved: 0, 1 and qoslet itself stay")
        for tree in self.layout.trees:
            try:
                tree.write(path, "cgroup.procs", str(pid))
            except OSError as error:
                where = tree.point + path
                number = error.errno or 0
                raise cgroup_error("attach", where, number, "cgroup.procs", str(pid)) from error

    def _remove(self, path: str) -> None:
        """Remove the group from every hierarchy; busy ones are tried again for a moment.

        The hierarchy that gives the group its identity is the last one: what stays after a
        kill on the way is still known as ours.
        """
        for tree in reversed(self.layout.trees):
            delay = 0.001
            for last in (False,) * (REMOVE_TRIES - 1) + (True,):
                try:
                    tree.rmdir(path)
                    break
                except OSError as error:
                    if error.errno != EBUSY or last or tree.children(path):
                        raise self._busy(tree, path, error) from error
                self._sleep(delay)
                delay *= 2
        self._known.discard(path)
        self.layout.removed(path)
        self._made.append(Removed(path, done=True))

    def _busy(self, tree: MountedTree, path: str, error: OSError) -> CgroupError:
        """Why a group cannot be removed, with who is in it."""
        said = cgroup_error("remove", tree.point + path, error.errno or 0)
        inside = sorted(members(self.layout, [path])) or tree.children(path)
        if error.errno == EBUSY and inside:
            names = ", ".join(str(one) for one in inside[:5])
            return CgroupError(f"{said} (in it: {names})", said.number)
        return said

    def shell(self, step: Step) -> str:
        """The shell line that would do ``step`` by hand, quoted."""
        from shlex import quote

        points = [quote(tree.point + step.path) for tree in self.layout.trees]
        match step.kind:
            case "create":
                return " && ".join(self._make_lines(checked(step.path)))
            case "remove":
                return f"rmdir {' '.join(points)}"
            case "attach":
                files = " ".join(f"{point}/cgroup.procs" for point in points)
                return f"printf %s {step.pid} | tee {files} > /dev/null"
        tree = self.layout.tree_of(controller(step.file)) or self.layout.trees[0]
        value = quote(step.value) if step.value else "'\\n'"
        form = "%s " if step.value else ""
        first = by_hand(tree.point + step.path, step) if self.hierarchy == "v2" else ""
        return f"{first}printf {form}{value} > {quote(f'{tree.point}{step.path}/{step.file}')}"

    def _make_lines(self, path: str) -> list[str]:
        """The commands that make a group, and those above it that no line has made yet."""
        chain = [one for one in self._unmade(parent(path)) if one not in self._shown]
        absent = [one for one in chain if self.identity(one) is None]
        self._shown.update(chain, [path])
        return [line for one in [*absent, path] for line in self.layout.make_lines(one)]

    def join_fds(self, path: str) -> list[int]:
        """``cgroup.procs`` of the group in every hierarchy, open for writing: a forked child
        writes ``0`` to each and is inside. The caller closes them. Raises OSError, Refused."""
        group = self._mine(path)
        opened: list[int] = []
        try:
            for tree in self.layout.trees:
                opened.append(tree.open_to_write(group, "cgroup.procs"))
        except OSError as error:
            for descriptor in opened:
                os.close(descriptor)
            error.filename = f"{tree.point}{group}/cgroup.procs"
            raise
        return opened

    def members(self, path: str) -> set[int]:
        """The processes in the group itself, over all hierarchies."""
        return members(self.layout, [checked(path)])

    def kill(self, path: str) -> bool:
        """End every process of the group and below; True once none is left. Raises ``CgroupError``
        outside our root, ``CannotDo`` where PID 1 or this process is inside."""
        return kill(self.layout, self._mine(path))

    def identity(self, path: str) -> int | None:
        """The inode of a group in the first hierarchy that has it; None where there is none."""
        group, trees = checked(path), self.layout.trees
        return next((one for tree in trees if (one := tree.identity(group)) is not None), None)

    def identifies(self, path: str) -> bool:
        """Whether the first hierarchy has a group."""
        return self.layout.trees[0].identity(checked(path)) is not None

    def _exists(self, path: str) -> bool:
        """Whether a group is there, and not only what is left of it beside its inode."""
        return self.identifies(path)

    def below(self, path: str) -> list[str]:
        """The group and all below it in any hierarchy, children first; empty if absent."""
        return below(self.layout, checked(path))

    def discard(self, path: str) -> str | None:
        """Remove one empty group without writing it down; what went wrong, None if it is gone."""
        return self.do_unrecorded(Step("remove", path))

    def do_unrecorded(self, step: Step) -> str | None:
        """One step that is not written down; what went wrong, None if it is done."""
        outcome = self._do([step], {})[0]
        self._made.clear()
        return outcome.error

    def close(self) -> None:
        """Close every descriptor."""
        for tree in self.layout.trees:
            tree.close()
