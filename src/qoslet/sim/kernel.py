"""A simulated kernel behind the loop's ports: it performs steps and can be observed.

It has the rules of ``cgroups.SimCgroups``, whose system calls act as other processes in tests.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from errno import EEXIST, ENOENT, errorcode
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.features import NEWEST_KERNEL, KernelFeatures
from qoslet.core.cgroup.interface_files import controller, cpu_numbers
from qoslet.core.cgroup.names import DEFAULT_POINT, is_at_or_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.host_facts import kernel_version
from qoslet.core.node.missing_files import missing_files
from qoslet.core.node.node import Hierarchy, Node
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.sim.cgroups import CONTROLLERS, FACTS, SimCgroups, refusal


def facts_of(node: Node, cpus: str) -> KernelFeatures:
    """The kernel of a node that has these CPUs."""
    return replace(
        FACTS,
        page_size=node.host.page_size,
        cpus=cpu_numbers(cpus),
        kernel=kernel_version(node.host.kernel) or NEWEST_KERNEL,
    )


def controllers_of(node: Node) -> tuple[str, ...]:
    """The controllers of a node's host; on v1 the hierarchy of ``cpuacct`` is always there."""
    missing = missing_files(node.host)
    names = CONTROLLERS[node.hierarchy]
    if missing is None:
        return names
    return tuple(name for name in names if not missing.lacks(f"{name}.max"))


class Fault(Struct, frozen=True):
    """An injected error: the step with that ``index``, counted from 0 over all performed steps,
    fails with ``errno``. ``always``: the same change of the same cgroup fails from then on."""

    index: int
    errno: int
    mode: Literal["once", "always"] = "once"


class SimKernel(SimCgroups):
    """Matches ``agent.ports.Driver`` and ``Observer``.

    ``clock`` gives the monotonic seconds of an observation, ``faults`` what is refused beyond
    the kernel's own rules. The group ``/`` is never listed.
    CPU time is unknown here: it is ``runtime.SimRuntime`` that lets time pass.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        clock: Callable[[], float] = lambda: 0.0,
        controllers: Sequence[str] | None = None,
        facts: KernelFeatures = FACTS,
        swap: bool = True,
        hugepages: Sequence[str] = ("2MB", "1GB"),
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(
            hierarchy, controllers=controllers, facts=facts, swap=swap, hugepages=hugepages
        )
        self._clock = clock
        self._faults = {fault.index: fault for fault in faults}
        self._refused: dict[Step, int] = {}
        self._performed = 0

    def copy(self) -> SimKernel:
        """The same machine once more: what is done to one is not seen in the other."""
        other = copy(self)
        other.groups = {path: cgroup.copy() for path, cgroup in self.groups.items()}
        other.processes = {pid: replace(process) for pid, process in self.processes.items()}
        other._refused = dict(self._refused)
        return other

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        """Do each step; stop after the first that fails. One outcome for each step tried."""
        outcomes: list[Outcome] = []
        for step in steps:
            outcomes.append(self._outcome(step))
            if outcomes[-1].error is not None:
                break
        return outcomes

    def poll_pending(self) -> list[Outcome]:
        """Nothing waits here."""
        return []

    def shell(self, step: Step) -> str:
        """The shell line that would do ``step`` by hand, quoted."""
        if step.kind == "set":
            place = shlex.quote(f"{self._places(step.path, step.file)[0]}/{step.file}")
            return f"echo {shlex.quote(step.value)} > {place}"
        places = [shlex.quote(place) for place in self._places(step.path)]
        match step.kind:
            case "create":
                return f"mkdir -p {' '.join(places)}"
            case "remove":
                return f"rmdir {' '.join(places)}"
            case _:
                return " && ".join(f"echo {step.pid} > {place}/cgroup.procs" for place in places)

    def watch(self, files: Iterable[str]) -> None:
        """Every file is read as it is."""

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``; an absent root gives no cgroups."""
        top = posixpath.normpath(root)
        listed = [path for path in self.groups if path != "/" and is_at_or_below(path, top)]
        return Observed(self._clock(), {path: self._seen(path, values) for path in sorted(listed)})

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One group, None where it is absent."""
        return self._seen(path, True) if path in self.groups and path != "/" else None

    def identity(self, path: str) -> int | None:
        """The inode of a group, None where it is absent."""
        seen = self.read_cgroup(path)
        return None if seen is None or seen.missing else seen.identity

    def reclaimable_cache(self, path: str) -> int:
        """No file is read here, so there is no page cache."""
        return 0

    def kill(self, path: str) -> bool:
        """End every process of the group and below."""
        for process in self.members(path, below=True) if path in self.groups else ():
            self.end(process.pid, 137)
        return True

    def describe_processes(self, path: str, pids: Sequence[int], *, killed: bool = False) -> str:
        """Who these processes are."""
        return ", ".join(f"process {pid}" for pid in pids)

    def lives(self, pid: int) -> bool:
        """Whether a process has not ended."""
        return pid in self.processes and self.processes[pid].exit_code is None

    def lift(self, path: str, *, overdue: bool) -> Sequence[str]:
        """What is frozen or throttled here ends all the same."""
        return ()

    def _outcome(self, step: Step) -> Outcome:
        """One step and what came of it."""
        before = self._before(step)
        try:
            self._fault(step)
            self._do(step)
        except OSError as error:
            name = errorcode.get(error.errno or 0, "")
            return Outcome(step, before, error.strerror, name)
        return Outcome(step, before)

    def _before(self, step: Step) -> str | None:
        cgroup = self.groups.get(step.path)
        return cgroup.files.get(step.file) if cgroup and step.kind == "set" else None

    def _fault(self, step: Step) -> None:
        """Refuse what the faults say."""
        key = Step(step.kind, step.path, step.file)
        fault = self._faults.get(self._performed)
        self._performed += 1
        if fault is not None and fault.mode == "always":
            self._refused[key] = fault.errno
        code = fault.errno if fault is not None else self._refused.get(key)
        if code is not None:
            raise refusal(code)

    def _do(self, step: Step) -> None:
        match step.kind:
            case "create":
                self._create(step.path)
            case "set":
                self._set(step)
            case "attach":
                self.attach(step.path, step.pid)
            case "remove":
                self._remove(step.path)

    def _set(self, step: Step) -> None:
        """A value; controllers that were switched off above are enabled again for it."""
        try:
            self.write(step.path, step.file, step.value)
        except OSError as error:
            if error.errno != ENOENT or self.hierarchy == "v1" or step.path not in self.groups:
                raise
            self._create(step.path)
            self.write(step.path, step.file, step.value)

    def _create(self, path: str) -> None:
        """The group and those above it, with every controller; what is there stays. On v1 a
        group without CPUs takes its parent's, because nothing could run in it."""
        parent = posixpath.dirname(path)
        if path == "/":
            return
        self._create(parent)
        if self.hierarchy == "v2":
            missing = [c for c in self.controllers if c not in self.groups[parent].enabled]
            if missing:
                words = " ".join(f"+{name}" for name in missing)
                self.write(parent, "cgroup.subtree_control", words)
        try:
            self.mkdir(path)
        except OSError as error:
            if error.errno != EEXIST:
                raise
        if self.hierarchy == "v1":
            files = self.groups[path].files
            for file in ("cpuset.cpus", "cpuset.mems"):
                if files.get(file) == "":
                    self.write(path, file, self.groups[parent].files[file])

    def _remove(self, path: str) -> None:
        """A group that is gone already is removed."""
        try:
            self.rmdir(path)
        except OSError as error:
            if error.errno != ENOENT:
                raise

    def _places(self, path: str, file: str = "") -> list[str]:
        """Directories of a group: one, or on v1 one for each hierarchy (of ``file`` only)."""
        if self.hierarchy == "v2":
            return [f"{DEFAULT_POINT}{path}"]
        trees = [controller(file)] if file else self.controllers
        return [f"{DEFAULT_POINT}/{tree}{path}" for tree in trees]

    def _seen(self, path: str, values: bool) -> ObservedCgroup:
        """One group as an observer reads it."""
        cgroup = self.groups[path]
        missing = tuple(tree for tree in self.trees if tree not in cgroup.inodes)
        counted = "memory" not in missing
        return ObservedCgroup(
            path=path,
            identity=next(cgroup.inodes[tree] for tree in self.trees if tree in cgroup.inodes),
            values=dict(cgroup.files) if values else {},
            missing=missing,
            pids=tuple(sorted(process.pid for process in self.members(path))),
            memory=self.memory(path) if counted else None,
            memory_peak=cgroup.peak if counted else None,
            oom_kills=cgroup.oom_kills if counted else None,
        )
