"""Reads what this machine's kernel tells of memory; matches ``agent.memory_ports.MemoryReader``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.memory.stat_parser import limit_v1, node_memory, number, pairs, pressure, stat_v1
from qoslet.core.pressure.stall_tuning import STALL_TUNING
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.linux.openat import FEW, MountedTree, checked, open_retrying
from qoslet.host.linux.procfs import text

_MOST = 64 * 1024
_MOST_ASKED = 32
"""Processes of a group that are asked, each of them twice a second."""
_OF_PODS = ("/pods/", "/sandboxes/", "/volumes/")
"""Parts of the paths of tmpfs mounts that go with a pod: a kubelet's and qoslet's volumes, and the
``/dev/shm`` of containerd's sandboxes."""
_LINKS = 2
"""Of a directory without another one in it."""
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class MemoryFiles:
    """The reader. ``hierarchy`` and ``mounts`` are as for ``layout.layout_of``."""

    def __init__(self, hierarchy: str, mounts: Mapping[str, str] | str) -> None:
        layout = layout_of(hierarchy, mounts, keeps=FEW)
        self._v1 = hierarchy == "v1"
        self._tree = layout.tree_of("memory")
        self._cpu = layout.tree_of("cpuacct") if self._v1 else None

    def sample(self, path: str) -> MemorySample | None:
        """One group, all of it through one open directory: never two groups of one name. None where
        the kernel does not tell what its memory is: all of it would look like its own."""
        if self._tree is None:
            return None
        group = checked(path)
        try:
            directory = self._tree.directory(group)
        except OSError:
            return None
        try:
            return self._legacy(path, directory) if self._v1 else self._unified(path, directory)
        finally:
            os.close(directory)

    def node(self) -> NodeMemory:
        """The machine."""
        return node_memory(
            time.monotonic(),
            text("/proc/meminfo"),
            text("/proc/vmstat"),
            text("/proc/pressure/memory"),
            text("/proc/zoneinfo"),
            _PAGE_SIZE,
        )

    def surviving_tmpfs(self) -> int:
        """Bytes in the machine's own tmpfs mounts, each file system once."""
        used: dict[int, int] = {}
        for mount in mounts():
            if mount.type != "tmpfs" or any(part in mount.point for part in _OF_PODS):
                continue
            try:
                number, seen = os.stat(mount.point).st_dev, os.statvfs(mount.point)
            except OSError:
                continue
            used[number] = (seen.f_blocks - seen.f_bfree) * seen.f_frsize
        return sum(used.values())

    def _unified(self, path: str, directory: int) -> MemorySample | None:
        """A group of v2; None where it has no memory controller, or does not tell what its memory is."""
        current = number(_read(directory, "memory.current"))
        # up to Linux 6.15 this brings memory.stat up to date, which else lags by 64 changes a CPU, or 2 s
        cpu = pairs(_read(directory, "cpu.stat"))
        stat = pairs(_read(directory, "memory.stat"))
        if current is None or not stat:
            return None
        populated = pairs(_read(directory, "cgroup.events")).get("populated")
        high = number(_read(directory, "memory.high"))
        near = False
        if high is not None and high < UNLIMITED:
            near = STALL_TUNING.is_near(current, high, _PAGE_SIZE)
        return MemorySample(
            path=path,
            at=time.monotonic(),
            identity=os.fstat(directory).st_ino,
            current=current,
            high=high,
            max=number(_read(directory, "memory.max")),
            low=number(_read(directory, "memory.low")),
            min=number(_read(directory, "memory.min")),
            peak=number(_read(directory, "memory.peak")),
            swap=number(_read(directory, "memory.swap.current")),
            swap_max=number(_read(directory, "memory.swap.max")),
            stat=stat,
            events=pairs(_read(directory, "memory.events")),
            local=pairs(_read(directory, "memory.events.local")),
            pressure=pressure(_read(directory, "memory.pressure")),
            usage_usec=cpu.get("usage_usec"),
            user_usec=cpu.get("user_usec"),
            called=_called(directory) if near else None,
            page_size=_PAGE_SIZE,
            populated=None if populated is None else bool(populated),
        )

    def _legacy(self, path: str, directory: int) -> MemorySample | None:
        """A group of v1, which counts hits of the limit and kills, each group its own."""
        current = number(_read(directory, "memory.usage_in_bytes"))
        stat = stat_v1(_read(directory, "memory.stat"))
        if current is None or not stat:
            return None
        both = number(_read(directory, "memory.memsw.usage_in_bytes"))
        kills = pairs(_read(directory, "memory.oom_control")).get("oom_kill")
        hits = number(_read(directory, "memory.failcnt"))
        local = {"max": hits, "oom_kill": kills}
        return MemorySample(
            path=path,
            at=time.monotonic(),
            identity=os.fstat(directory).st_ino,
            current=current,
            max=limit_v1(_read(directory, "memory.limit_in_bytes")),
            peak=number(_read(directory, "memory.max_usage_in_bytes")),
            swap=None if both is None else max(0, both - current),
            stat=stat,
            local={name: value for name, value in local.items() if value is not None},
            usage_usec=self._cpu_time(path),
            page_size=_PAGE_SIZE,
        )

    def _cpu_time(self, path: str) -> int | None:
        """Microseconds, from v1's own hierarchy for that."""
        used = number(_of_tree(self._cpu, checked(path), "cpuacct.usage"))
        return None if used is None else used // 1000


def _called(directory: int) -> int | None:
    """Bytes that system calls of a group's processes, and of their children that ended, have read; None
    where there is no process or there are many, some may be in groups below, or the kernel does not tell."""
    if os.fstat(directory).st_nlink > _LINKS:
        return None
    pids = (_read(directory, "cgroup.procs") or "").split()
    if len(pids) > _MOST_ASKED:
        return None
    found = [pairs(text(f"/proc/{pid}/io")).get("rchar:") for pid in pids]
    known = [one for one in found if one is not None]
    return sum(known) if known else None


def _of_tree(tree: MountedTree | None, path: str, file: str) -> str | None:
    """A file of a group; None where it cannot be read."""
    try:
        return None if tree is None else tree.read(path, file)
    except OSError:
        return None


def _read(directory: int, file: str) -> str | None:
    """A file of an open directory; None where it cannot be read."""
    try:
        descriptor = open_retrying(file, _FILE, directory)
    except OSError:
        return None
    try:
        # each is made whole by one read
        return os.read(descriptor, _MOST).decode("ascii", "replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)
