"""Simulated cgroups and processes, with the system calls on them.

``SimCgroups`` refuses, inherits and rounds like kernels of v1 and v2: its methods raise ``OSError``
with the kernel's errno.

Source: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst; kernel/cgroup, kernel/sched/core.c,
mm/memcontrol*.c of Linux 6.12 and 6.18; the contract tests compare it with a real kernel.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.accepts import ERRNOS, effective, written
from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.cgroup.interface_files import controller, cpu_numbers, joined
from qoslet.core.cgroup.kernel_files import older
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.node.node import Hierarchy

CONTROLLERS: Mapping[Hierarchy, tuple[str, ...]] = {
    "v1": ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb"),
    "v2": ("cpu", "cpuset", "memory", "pids", "hugetlb"),
}

_FRESH: Mapping[Hierarchy, Mapping[str, str]] = {
    "v1": {
        "cpu.shares": "1024",
        "cpu.idle": "0",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "-1",
        "cpuset.cpus": "",
        "cpuset.mems": "",
        "memory.limit_in_bytes": "",
        "memory.memsw.limit_in_bytes": "",
        "memory.soft_limit_in_bytes": "",
        "pids.max": "max",
    },
    "v2": {
        "cpu.weight": "100",
        "cpu.max": "max 100000",
        "cpu.idle": "0",
        "cpuset.cpus": "",
        "cpuset.mems": "",
        "memory.max": "max",
        "memory.high": "max",
        "memory.low": "0",
        "memory.min": "0",
        "memory.swap.max": "max",
        "memory.oom.group": "0",
        "pids.max": "max",
    },
}
"""The values of a new cgroup; an empty amount of v1 stands for its "no limit"."""

_LIMIT, _SWAP_TOTAL = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
_QUOTA, _PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"
_RATIO_SHIFT = 20
_IDLE_SHARES = "3"
"""What an idle cgroup of v1 reads. Source: kernel/sched/sched.h WEIGHT_IDLEPRIO."""
KILLED = 137

FACTS = KernelFeatures(cpus=frozenset((0, 1)), mems=frozenset((0,)))
"""The newest kernel on a machine with two CPUs and one memory node."""


def refusal(code: int) -> OSError:
    """The error of a system call."""
    return OSError(code, os.strerror(code))


class Process(Struct):
    """A process: ``memory`` in bytes; ``exit_code`` once it ended."""

    pid: int
    path: str
    memory: int = 0
    oom_score_adj: int = 0
    exit_code: int | None = None
    oom_killed: bool = False


class SimCgroup(Struct):
    """A cgroup: the inode of its directory by controller (v2: one, by ``""``), its files, the
    controllers of its children (v2), its peak usage in bytes, its OOM kills."""

    inodes: dict[str, int] = {}
    files: dict[str, str] = {}
    enabled: set[str] = set()
    peak: int = 0
    oom_kills: int = 0

    def copy(self) -> SimCgroup:
        """A deep copy."""
        mine = {"inodes": dict(self.inodes), "files": dict(self.files), "enabled": {*self.enabled}}
        return replace(self, **mine)


class SimCgroups:
    """A machine's groups; ``/`` exists from the start.

    ``swap`` is swap accounting, ``hugepages`` the sizes as files spell them.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        controllers: Sequence[str] | None = None,
        facts: KernelFeatures = FACTS,
        swap: bool = True,
        hugepages: Sequence[str] = ("2MB", "1GB"),
    ) -> None:
        self.hierarchy = hierarchy
        self.facts = facts
        self.controllers = tuple(CONTROLLERS[hierarchy] if controllers is None else controllers)
        self.trees = self.controllers if hierarchy == "v1" else ("",)
        self.processes: dict[int, Process] = {}
        top = {"cpuset.cpus": joined(facts.cpus or ()), "cpuset.mems": joined(facts.mems or ())}
        self.groups = {"/": SimCgroup(dict.fromkeys(self.trees, 1), top)}
        self._identity = 1
        self._pid = 1000
        self._fresh = self._defaults(swap, hugepages)

    def mkdir(self, path: str, tree: str | None = None) -> None:
        """Create a directory, on v1 in every hierarchy that lacks it, or in that of ``tree``."""
        parent = posixpath.dirname(path)
        if "\n" in path:
            raise refusal(errno.EINVAL)
        parent_cgroup = self._existing(parent)
        cgroup = self.groups.get(path) or SimCgroup()
        wanted = self.trees if tree is None else (tree,)
        lacking = [tree_name for tree_name in wanted if tree_name not in cgroup.inodes]
        if not lacking:
            raise refusal(errno.EEXIST)
        if any(tree_name not in parent_cgroup.inodes for tree_name in lacking):
            raise refusal(errno.ENOENT)
        self._identity += 1
        for tree_name in lacking:
            cgroup.inodes[tree_name] = self._identity
        controllers = parent_cgroup.enabled if self.hierarchy == "v2" else set(lacking)
        for file, value in self._fresh.items():
            if controller(file) in controllers:
                cgroup.files[file] = value
        self.groups[path] = cgroup

    def rmdir(self, path: str, tree: str | None = None) -> None:
        """Remove a cgroup, or only its directory in the v1 hierarchy of ``tree``."""
        cgroup = self._existing(path)
        if any(True for _ in self.children(path)) or self.members(path):
            raise refusal(errno.EBUSY)
        if tree is None or list(cgroup.inodes) == [tree]:
            del self.groups[path]
            return
        if tree not in cgroup.inodes:
            raise refusal(errno.ENOENT)
        del cgroup.inodes[tree]
        cgroup.files = {file: v for file, v in cgroup.files.items() if controller(file) != tree}

    def read(self, path: str, file: str) -> str:
        """What a file holds, without the newline."""
        cgroup = self._existing(path)
        if file == "cgroup.subtree_control" and self.hierarchy == "v2":
            return " ".join(c for c in self.controllers if c in cgroup.enabled)
        if file not in cgroup.files:
            raise refusal(errno.ENOENT)
        return cgroup.files[file]

    def write(self, path: str, file: str, text: str) -> None:
        """Write a file. What the kernel keeps may differ from ``text``."""
        cgroup = self._existing(path)
        if file == "cgroup.subtree_control" and self.hierarchy == "v2":
            self._enable(path, cgroup, text)
            return
        if file not in cgroup.files:
            raise refusal(errno.ENOENT)
        # a driver clears a list with an empty line
        value = written(file, text or "\n", cgroup.files[file], self.facts)
        if isinstance(value, tuple):
            raise refusal(ERRNOS[value[0]])
        weight = "cpu.shares" if self.hierarchy == "v1" else "cpu.weight"
        if file == weight and cgroup.files["cpu.idle"] == "1":
            raise refusal(errno.EINVAL)
        if file == "cpu.idle" and value != cgroup.files[file]:
            idle = _IDLE_SHARES if self.hierarchy == "v1" else self.facts.idle_weight
            cgroup.files[weight] = idle if value == "1" else _FRESH[self.hierarchy][weight]
        if file in (_QUOTA, _PERIOD):
            self._bandwidth(path, {**cgroup.files, file: value})
        elif file in (_LIMIT, _SWAP_TOTAL):
            self._limit(path, cgroup, file, value)
        elif file.startswith("cpuset.") and self.hierarchy == "v1":
            self._cpuset(path, file, value)
        cgroup.files[file] = value
        if file == "memory.max":
            self._shrink(path, value)

    def attach(self, path: str, pid: int) -> None:
        """Move a process."""
        cgroup = self._existing(path)
        process = self.processes.get(pid)
        if process is None or process.exit_code is not None:
            raise refusal(errno.ESRCH)
        if self.hierarchy == "v2" and cgroup.enabled:
            raise refusal(errno.EBUSY)
        if any(tree not in cgroup.inodes for tree in self.trees):
            raise refusal(errno.ENOENT)
        lists = ("cpuset.cpus", "cpuset.mems") if self.hierarchy == "v1" else ()
        if any(cgroup.files.get(file) == "" for file in lists):
            raise refusal(errno.ENOSPC)
        process.path = path

    def spawn(self, path: str, *, memory: int = 0, oom_score_adj: int = 0) -> int:
        """Start a process inside a group; its number."""
        self._pid += 1
        pid = self._pid
        self.processes[pid] = Process(pid, "/", memory, oom_score_adj)
        try:
            self.attach(path, pid)
        except OSError:
            del self.processes[pid]
            raise
        self.note_peaks(path)
        return pid

    def end(self, pid: int, code: int) -> None:
        """End a process with ``code``; its memory is freed."""
        process = self.processes[pid]
        process.exit_code = code
        process.memory = 0

    def children(self, path: str) -> Iterator[str]:
        """The groups right below ``path``."""
        return (child for child in self.groups if child != "/" and posixpath.dirname(child) == path)

    def members(self, path: str, *, below: bool = False) -> list[Process]:
        """The living processes of a group, with ``below`` of its whole subtree."""
        return [
            process
            for process in self.processes.values()
            if process.exit_code is None
            and (is_at_or_below(process.path, path) if below else process.path == path)
        ]

    def memory(self, path: str) -> int:
        """Bytes in use in a subtree."""
        return sum(process.memory for process in self.members(path, below=True))

    def oom(self, path: str) -> None:
        """The cgroup at ``path`` is out of memory: kill its worst process, or a whole cgroup with
        ``memory.oom.group``."""
        total = max(1, self.memory(path))
        processes = [
            process for process in self.members(path, below=True) if process.oom_score_adj > -1000
        ]
        if not processes:
            return
        worst = max(
            processes, key=lambda process: process.memory + process.oom_score_adj * total // 1000
        )
        victims = [worst]
        for at in above(worst.path):
            if not is_at_or_below(at, path):
                break
            if self.groups[at].files.get("memory.oom.group") == "1":
                victims = self.members(at, below=True)
        for victim in victims:
            counting = [victim.path] if self.hierarchy == "v1" else above(victim.path)
            for at in counting:
                self.groups[at].oom_kills += 1
            victim.oom_killed = True
            self.end(victim.pid, KILLED)

    def note_peaks(self, path: str) -> None:
        """Update the peak of a cgroup and its ancestors."""
        for at in above(path):
            self.groups[at].peak = max(self.groups[at].peak, self.memory(at))

    def _defaults(self, swap: bool, hugepages: Sequence[str]) -> dict[str, str]:
        """The files of a new group with every controller."""
        names = dict(_FRESH[self.hierarchy])
        last, unlimited = ("max", "max") if self.hierarchy == "v2" else ("limit_in_bytes", "-1")
        for size in hugepages:
            names |= {f"hugetlb.{size}.{last}": "", f"hugetlb.{size}.rsvd.{last}": ""}
        if not swap:
            names.pop(_SWAP_TOTAL, None)
            names.pop("memory.swap.max", None)
        for file, value in names.items():
            if not value and not file.startswith("cpuset."):
                names[file] = effective(file, unlimited, self.facts.page_size)
        kernel = self.facts.kernel
        return {
            file: value
            for file, value in names.items()
            if controller(file) in self.controllers and older(file, self.hierarchy, kernel) is None
        }

    def _existing(self, path: str) -> SimCgroup:
        """A group that exists."""
        cgroup = self.groups.get(path)
        if cgroup is None:
            raise refusal(errno.ENOENT)
        return cgroup

    def _enable(self, path: str, cgroup: SimCgroup, text: str) -> None:
        """``cgroup.subtree_control``: all words or none."""
        words = text.split()
        if any(word[:1] not in "+-" or word[1:] not in self.controllers for word in words):
            raise refusal(errno.EINVAL)
        add = {word[1:] for word in words if word[0] == "+"}
        drop = {word[1:] for word in words if word[0] == "-"}
        offered = (
            set(self.controllers) if path == "/" else self.groups[posixpath.dirname(path)].enabled
        )
        if not add <= offered:
            raise refusal(errno.ENOENT)
        below = [self.groups[child] for child in self.children(path)]
        if any(drop & child.enabled for child in below):
            raise refusal(errno.EBUSY)
        if add - cgroup.enabled and path != "/" and self.members(path):
            raise refusal(errno.EBUSY)
        for child in below:
            for file, value in self._fresh.items():
                if controller(file) in add - cgroup.enabled:
                    child.files[file] = value
                elif controller(file) in drop:
                    child.files.pop(file, None)
        cgroup.enabled = (cgroup.enabled | add) - drop

    def _bandwidth(self, path: str, files: Mapping[str, str]) -> None:
        """Refuse a v1 quota whose share of its period exceeds an ancestor's; a cgroup without a
        quota inherits. Source: kernel/sched/core.c tg_cfs_schedulable_down."""
        self.groups[path].files, before = dict(files), self.groups[path].files
        try:
            for child in self.children("/"):
                self._schedulable(child, None)
        finally:
            self.groups[path].files = before

    def _schedulable(self, path: str, above: int | None) -> None:
        files = self.groups[path].files
        ratio = _ratio(files)
        if ratio is None:
            ratio = above
        elif above is not None and ratio > above:
            raise refusal(errno.EINVAL)
        for child in self.children(path):
            self._schedulable(child, ratio)

    def _limit(self, path: str, cgroup: SimCgroup, file: str, value: str) -> None:
        """v1 memory limits: memory+swap is never below memory, neither below what is in use."""
        other = cgroup.files.get(_SWAP_TOTAL if file == _LIMIT else _LIMIT)
        smaller, larger = (value, other) if file == _LIMIT else (other, value)
        if smaller is not None and larger is not None and int(smaller) > int(larger):
            raise refusal(errno.EINVAL)
        if int(value) < self.memory(path):
            raise refusal(errno.EBUSY)

    def _cpuset(self, path: str, file: str, value: str) -> None:
        """v1: a subset of the parent's, a superset of the children's, not empty in use."""
        wanted = cpu_numbers(value)
        for child in self.children(path):
            if not cpu_numbers(self.groups[child].files.get(file, "")) <= wanted:
                raise refusal(errno.EBUSY)
        above = self.groups[posixpath.dirname(path)].files.get(file, "")
        if not wanted <= cpu_numbers(above):
            raise refusal(errno.EACCES)
        if not value and self.members(path):
            raise refusal(errno.ENOSPC)

    def _shrink(self, path: str, value: str) -> None:
        """v2: a limit below what is in use kills until it fits."""
        while value != "max" and self.memory(path) > int(value):
            before = len(self.members(path, below=True))
            self.oom(path)
            if len(self.members(path, below=True)) == before:
                return


def above(path: str) -> list[str]:
    """A group and those above it, from below; without ``/``."""
    paths: list[str] = []
    while path != "/":
        paths.append(path)
        path = posixpath.dirname(path)
    return paths


def _ratio(files: Mapping[str, str]) -> int | None:
    """Quota by period as the kernel's fixed point number; None without a quota."""
    quota = files.get(_QUOTA, "-1")
    if quota == "-1":
        return None
    return (int(quota) * 1000 << _RATIO_SHIFT) // (int(files[_PERIOD]) * 1000)
