"""Performs steps through systemd; matches ``agent.ports.Driver`` as ``cgroupfs`` does.

Groups of nodes, classes and pods are slices, those of containers are scopes. A value is set as a
property, and written to its file only where this systemd has none: what stands in a file behind
systemd's back is gone with its next reload. All that concerns a unit is one call, and calls for
units that do not stand above each other are under way at once.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from qoslet.core.cgroup import names
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import SCOPE, is_at_or_below
from qoslet.core.cgroup.tree_owner import unit_advice
from qoslet.core.cgroup.unit_properties import Signed, alone, creation
from qoslet.core.reconcile.journal import Created, Entry
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.core.reconcile.unit_jobs import Numbered, Piece, pieces, runs, waves
from qoslet.errors import QosletError
from qoslet.host.cgroupfs.async_writes import may_wait
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.write_errors import CgroupError, PendingWrite, cgroup_error
from qoslet.host.linux.openat import MountedTree, checked, parent
from qoslet.host.systemd.unit_properties import UnitProperties
from qoslet.host.systemd.units import Units

AT_ONCE = 100
"""Pieces under way together: systemd answers one after the other anyway."""
GONE_SECONDS = 5.0
"""How long systemd may take to remove the group of a scope that has ended."""

_OOM_GROUP = "memory.oom.group"
Given = Sequence[Signed]


class _Tried(NamedTuple):
    """A step that was tried; ``check``: the kernel's file has to be looked at; ``pending``: it
    waits until the kernel has taken memory back."""

    number: int
    step: Step
    error: QosletError | OSError | None = None
    check: bool = False
    pending: bool = False


class UnitDriver(Cgroupfs):
    """The driver for one root, a slice such as ``/qoslet.slice``; scopes are ``Systemd``'s.
    ``mounts`` are as the manager's own groups see them; ``own`` are the mount points of
    systemd's own hierarchies on v1, the one first by which it tells whether a unit runs."""

    def __init__(
        self,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        root: str,
        units: Units,
        *,
        own: Sequence[str] = (),
        files: Iterable[str] = (),
    ) -> None:
        super().__init__(hierarchy, mounts, root, files=files)
        self.units = units
        self._own = [MountedTree(point) for point in own]
        self._values = UnitProperties(self.layout, units.version)
        self._ours: set[str] = set()
        self._written: dict[str, dict[str, Step]] = {}
        unit_of(self.root)

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        """Do each step; stop after the first that fails. One outcome for each step tried. Steps of
        other units that were under way with that one are done, too; asked again they cost no call."""
        asked = {path for s in steps if s.kind == "create" for path in self._chain(s.path)}
        self._ours = {path for path in asked if path in self._known or self._in_journal(path)}
        return super().perform(steps)

    def _intents(self, steps: Sequence[Step], befores: Mapping[int, str]) -> list[Entry]:
        return super()._intents(list(self._values.written(steps)), befores)

    def _chain(self, path: str) -> list[str]:
        """The cgroups from our root down to ``path``; empty where ``path`` is not a unit's."""
        chain: list[str] = []
        while is_at_or_below(path, self.root) and (chain or is_unit(path)):
            chain.append(path)
            path = parent(path)
        return chain[::-1]

    def _above(self, path: str) -> list[str]:
        """The groups above ``path`` that have to be made first."""
        return [
            one for one in self._chain(path)[:-1] if one not in self._known or not self._alive(one)
        ]

    def _alive(self, path: str) -> bool:
        """Whether systemd has the group: on v1 others may stand where it makes none."""
        return (*self._own, *self.layout.trees)[0].identity(path) is not None

    def identifies(self, path: str) -> bool:
        """True: systemd makes a unit only in the hierarchies that it needs."""
        return True

    def _exists(self, path: str) -> bool:
        return self.identity(path) is not None

    def _do(self, steps: Sequence[Step], befores: Mapping[int, str]) -> list[Outcome]:
        """The steps in waves of pieces, reported up to the first that failed."""
        done: dict[int, Outcome] = {}
        stop = len(steps)
        for wave in waves(pieces(steps, self._values.at_creation, self._above)):
            due = [piece for piece in wave if piece.number < stop]
            for at in range(0, len(due), AT_ONCE):
                for one in self.units.bus.run(self._wave(due[at : at + AT_ONCE])):
                    done[one.number] = self._outcome(one, befores.get(one.number))
                    if one.error is not None:
                        stop = min(stop, one.number)
        return [done[number] for number in range(min(stop + 1, len(steps)))]

    def _outcome(self, tried: _Tried, before: str | None) -> Outcome:
        """What came of a step."""
        step = tried.step
        if tried.pending:
            return Outcome(step, before, pending=True)
        if isinstance(tried.error, CgroupError | OSError):
            return self._failed(step, before, tried.error)
        if tried.error is not None:
            return Outcome(step, before, str(tried.error))
        return Outcome(step, before)

    async def _wave(self, work: Sequence[Piece]) -> list[_Tried]:
        """Pieces together; then every value is looked for in the kernel."""
        theirs = (one for one in work if one.kind == "set" and one.path in self.others)
        kept = self._values.rewritten(theirs)
        found = await asyncio.gather(*(self._piece(piece) for piece in work))
        tried = [one for part in found for one in part]
        if kept:
            with suppress(QosletError):
                await self.units.bus.ping()
            self._values.keep(kept, self._written)
        checks = [one for one in tried if one.check and one.error is None]
        wrong = [one for one in checks if self._unlike(one.step) is not None]
        if not wrong:
            return tried
        try:
            # What is not there yet may be on its way.
            await self.units.bus.ping()
            for path in {one.step.path for one in wrong}:
                await self.units.stale(unit_of(path))
            self._values.empty_lists(one.step for one in wrong)
        except QosletError as error:
            return [one._replace(error=error) if one in wrong else one for one in tried]
        late = {one.number: self._unlike(one.step) for one in wrong}
        return [one._replace(error=one.error or late.get(one.number)) for one in tried]

    def _unlike(self, step: Step) -> CgroupError | None:
        """Why the kernel has not what a step says."""
        return self._values.unlike(step.path, step)

    async def _piece(self, piece: Piece) -> list[_Tried]:
        """All work on one unit, up to what fails. Raises nothing."""
        tried: list[_Tried] = []
        try:
            theirs = piece.kind == "set" and piece.path in self.others
            path = checked(piece.path) if theirs else self._mine(piece.path)
            match piece.kind:
                case "create":
                    await self._make_unit(path, [step for _, step in piece.steps])
                    tried += [_Tried(n, s, check=s.kind == "set") for n, s in piece.steps]
                case "set":
                    await self._change(path, piece.steps, tried)
                case "attach":
                    for number, step in piece.steps:
                        self._attach(path, step.pid)
                        tried.append(_Tried(number, step))
                case "remove":
                    await self._take_away(path)
                    tried += [_Tried(number, step) for number, step in piece.steps]
        except (QosletError, OSError) as error:
            done = {one.number for one in tried}
            left = [(n, s) for n, s in piece.steps if n not in done]
            number, step = left[0] if left else (piece.number, Step(piece.kind, piece.path))
            tried.append(_Tried(number, step, error))
        return tried

    async def _make_unit(self, path: str, steps: Sequence[Step]) -> None:
        """A slice or scope with the values of ``steps``. Raises ``CgroupError``, OSError."""
        unit = unit_of(path)
        ours = path in self._ours or path in self._known
        if self.identity(path) is not None and not ours:
            raise CgroupError(
                f"{path}: the cgroup exists, but no qoslet journal has it; {unit_advice(path)}",
                errno.EEXIST,
            )
        values = self._values.properties(path, [step for step in steps if step.kind == "set"])
        above = parent(path).rpartition("/")[2] or ("-.slice" if unit.endswith(SCOPE) else "")
        new = await self._begin(path, unit, above, values, ours=ours)
        later = [one for one in values if one[0] != "OOMPolicy"]
        if not new and later:
            await self.units.change(unit, later)
        inode = self.identity(path)
        if inode is None or not self._alive(path):
            await self.units.stop(unit)
            raise cgroup_error("create", self.layout.trees[0].point + path, errno.EAGAIN)
        if self.hierarchy == "v1":
            self.layout.create(path)
            inode = self.layout.trees[0].inode(path)
        fresh = new or path not in self._known
        if fresh:
            self._new.add(path)
        if fresh or not self._in_journal(path):
            # systemd makes the slice of a runtime's scope where ours is gone
            self._made.append(Created(path, inode))
        self._known.add(path)
        self._values.sent(path, values)

    async def _begin(self, path: str, unit: str, above: str, given: Given, ours: bool) -> bool:
        """Start the unit; False if it runs already."""
        return await self.units.make(unit, [*creation(unit, above), *given], ours=ours)

    async def _change(self, path: str, steps: Sequence[Numbered], tried: list[_Tried]) -> None:
        """Set values of one unit, in their order; what is done is added to ``tried``."""
        theirs = steps[0][1].path in self.others
        if not theirs or any(self._values.by_property(step) for _, step in steps):
            await self._need_unit(path, steps[0][1])
        told = False
        for run in runs(steps, self._values.by_property):
            if self._values.by_property(run[0][1]):
                told = await self._send_values(path, run, tried) or told
                if tried[-1].error is not None:
                    break
                continue
            ((number, step),) = run
            if told:
                await self.units.bus.ping()
            self._write(path, step)
            tried.append(_Tried(number, step))
        if told:
            await self._again(path)

    async def _need_unit(self, path: str, step: Step) -> None:
        """Raise ``CgroupError`` if the unit does not run: systemd would load a unit of that name and
        keep the value for it."""
        unit = unit_of(path)
        if not self._alive(path):
            await self.units.stale(unit)
            raise cgroup_error("set", path, errno.ENODEV, step.file, step.value)
        if path in self.others and await self.units.state(unit) != "active":
            raise CgroupError(
                f"{path}: the cgroup exists, but {unit} is not running; use --cgroup-driver cgroupfs, or systemctl start it",
                errno.ENODEV,
            )

    async def _send_values(self, path: str, run: Sequence[Numbered], tried: list[_Tried]) -> bool:
        """Values of one call, up to the first that the kernel refuses; whether one was sent."""
        now: list[Numbered] = []
        late: list[_Tried] = []
        for number, step in run:
            try:
                if self._waits(path, step):
                    late.append(_Tried(number, step, pending=True))
                else:
                    now.append((number, step))
            except (CgroupError, OSError) as error:
                late.append(_Tried(number, step, error))
                break
        told = await self._set_properties(path, [step for _, step in now])
        tried += [_Tried(number, step, check=True) for number, step in now]
        tried += late
        return told

    def _waits(self, path: str, step: Step) -> bool:
        """Whether a limit below what is in use waits for memory to be taken back. It is written
        to its file first: systemd would wait in the kernel, and with it the whole machine."""
        tree = self.layout.tree_of(controller(step.file))
        slow = self.slow
        if tree is None or not (slow.concerns if slow else may_wait)(tree, path, step):
            return False
        try:
            self._set(step, None)
        except PendingWrite:
            return True
        return False

    def poll_pending(self) -> list[Outcome]:
        """What came of pending steps; systemd is told of a limit that now fits."""
        outcomes = super().poll_pending()
        for at, late in enumerate(outcomes):
            if late.error is None and not late.pending and self._values.by_property(late.step):
                (told,) = self._do([late.step], {0: late.before or ""})
                outcomes[at] = Outcome(late.step, late.before, told.error, told.errno_name)
        return outcomes

    async def _set_properties(self, path: str, steps: Sequence[Step]) -> bool:
        """Set properties in one call; False if there was nothing new."""
        properties = self._values.unsent(path, steps)
        if not properties:
            return False
        if path not in self.others:
            properties = alone(properties)
        await self.units.change(unit_of(path), properties)
        if await self.units.stale(unit_of(path)) or not self._alive(path):
            raise cgroup_error("set", path, errno.ENODEV, steps[0].file, steps[0].value)
        self._values.sent(path, properties)
        return True

    def _write(self, path: str, step: Step) -> None:
        """A value that no property carries. Raises ``CgroupError``, OSError."""
        # the scope of another manager: that one writes the file, too
        if self._values.fixed(step) and path not in self.others:
            if self._unlike(step) is not None:
                raise CgroupError(
                    f"{path}/{step.file}: systemd sets this only when the scope is created; restart the container"
                )
            return
        self._values.enable(path, step.file)
        self._set(step, None)
        self._written.setdefault(path, {})[step.file] = step

    async def _again(self, path: str) -> None:
        """Write again what systemd sets anew although it has no property."""
        step = self._written.get(path, {}).get(_OOM_GROUP)
        if step is not None:
            await self.units.bus.ping()
            self._set(step, None)

    def _attach(self, path: str, pid: int) -> None:
        """Move a process into a scope, in systemd's own hierarchy, too."""
        if not path.endswith(SCOPE):
            raise CgroupError(f"{path}: a slice has no processes; move them into a scope in it")
        super()._attach(path, pid)
        for tree in self._own:
            tree.write(path, "cgroup.procs", str(pid))

    async def _take_away(self, path: str) -> None:
        """Stop a unit in which nothing is left, and see that its group is gone."""
        tree = self.layout.trees[0]
        if self.members(path) or tree.children(path):
            raise self._busy(tree, path, OSError(errno.EBUSY, os.strerror(errno.EBUSY)))
        self._let_go(path)
        # systemd leaves some of v1 alone; the one that tells who made the group goes last
        for other in reversed(self.layout.trees[1:]):
            if other.identity(path) is not None:
                other.rmdir(path)
        if is_unit(path):
            await self.units.stop(unit_of(path), parent(path).split("/")[1:])
            await self._wait_removed(path)
        self._remove(path)
        self._values.forget(path)
        self._written.pop(path, None)

    def _let_go(self, path: str) -> None:
        """Nothing of ours keeps a unit that is to stop."""

    async def _wait_removed(self, path: str) -> bool:
        """Wait until systemd has removed a group; False if it does not."""
        pause, waited = 0.001, 0.0
        while self._alive(path):
            if waited > GONE_SECONDS:
                return False
            await asyncio.sleep(pause)
            waited += pause
            pause = min(pause * 2, 0.1)
        return True

    def close(self) -> None:
        """Leave the bus and close every descriptor."""
        self.units.bus.close()
        for tree in self._own:
            tree.close()
        super().close()


def is_unit(path: str) -> bool:
    """Whether a path is that of a slice or of a scope in one; others were made without systemd."""
    try:
        return bool(unit_of(checked(path)))
    except (CgroupError, ValueError):
        return False


def unit_of(path: str) -> str:
    """The unit of a path. Raises ``CgroupError`` where it is no slice and no scope in one."""
    above, _, unit = path.rpartition("/")
    slice_path = above if unit.endswith(SCOPE) and above else path
    try:
        if names.expand_slice(slice_path.rpartition("/")[2]) == slice_path:
            return unit
    except ValueError:
        pass
    raise CgroupError(f"{path}: not the path of a systemd unit such as /qoslet.slice")
