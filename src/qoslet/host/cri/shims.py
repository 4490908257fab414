"""The processes that a runtime keeps beside containers: shims, monitors, who writes their logs.

They are found as parents of the containers' own processes.

Source: containerd runtime v2 shims; conmon(8), conmon-rs; proc(5).
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import Struct, field

from qoslet.core.cgroup import names
from qoslet.host.containers.records import MainProcess, parent_of, same_process, start_time

_ID = re.compile("[0-9a-f]{64}")
"""What runtimes call sandboxes and containers, and have in their cgroups' names."""


def monitor_of(pid: int) -> MainProcess | None:
    """Who watches over a container whose process this is; None where nobody known does."""
    parent = parent_of(pid)
    if parent <= 1 or parent == os.getpid():
        return None
    try:
        program = os.path.basename(os.readlink(f"/proc/{parent}/exe")).removesuffix(" (deleted)")
    except OSError:
        return None
    start = start_time(parent)
    if start is None or not program.startswith(names.MONITORS):
        return None
    return MainProcess(parent, start, 0)


def group_of(pid: int, below: str) -> str:
    """The group directly below ``below`` that a process is in, or below of: crun puts a container's
    processes one deeper. In the first hierarchy where there is one; empty where there is none."""
    above = below.rstrip("/") + "/"
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            paths = [line.rstrip("\n").split(":", 2)[2] for line in file]
    except (OSError, IndexError):
        return ""
    inside = (path.removeprefix(above) for path in paths if path.startswith(above))
    return next((above + path.partition("/")[0] for path in inside), "")


def pid_and_group(info: Mapping[str, str], below: str) -> tuple[int | None, str]:
    """The main process of a container, and its group below the pod's."""
    pid = pid_of(info)
    return pid, group_of(pid, below) if pid is not None else ""


def pid_of(info: Mapping[str, str]) -> int | None:
    """The process that a verbose status tells, in this PID namespace."""
    try:
        found = msgspec.json.decode(info.get("info", ""))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    pid = found.get("pid") if isinstance(found, dict) else None
    return pid if isinstance(pid, int) and 1 < pid < 1 << 22 else None


class LostPod(Struct, frozen=True):
    """What may be left of a pod in a runtime that was killed meanwhile. ``known`` are the sandboxes
    and containers that it has, ``had`` the sandboxes that the pod ever had; ``since`` is when one was
    asked for whose id never came, in clock ticks since the boot; ``socket`` is the runtime's. ``mains``
    are the first processes of the pod's containers: who watches over one of them is no stray."""

    parent: str
    known: frozenset[str]
    mains: frozenset[int] = frozenset()
    had: frozenset[str] = frozenset()
    since: int | None = None
    socket: str = ""


def strays(lost: LostPod) -> list[MainProcess]:
    """Containerd's shims of a pod's sandboxes that containerd does not know any more. A shim's
    directory is its bundle: it names the group, and is deleted where containerd has given up the
    sandbox but not the shim."""
    found = []
    watching = {parent_of(pid) for pid in lost.mains}
    for pid in _processes():
        if pid in watching or not _is_shim(pid):
            continue
        start = start_time(pid)
        if start is not None and _is_stray(pid, start, lost):
            found.append(MainProcess(pid, start, 0))
    return found


def end_idle(sandbox: str, parent: str) -> list[int]:
    """Kill the shim of a sandbox of the pod in which nothing runs, in any of its containers; which one."""
    if leftovers(parent, ()):
        return []
    ended = []
    for pid in _processes():
        start = start_time(pid) if _is_shim(pid) and _bundle(pid)[0] == sandbox else None
        if start is not None:
            end(MainProcess(pid, start, 0))
            ended.append(pid)
    return ended


def survivors(
    parent: str, ids: Collection[str], group: Callable[[int, str], str] = group_of
) -> list[MainProcess]:
    """The processes in the cgroups of these sandboxes and containers below a pod's: a runtime has the id
    in the cgroup's name. ``group`` tells the cgroup of a process."""
    return _inside(parent, group, lambda leaf: any(id in leaf for id in ids))


def leftovers(
    parent: str, known: Collection[str], group: Callable[[int, str], str] = group_of
) -> list[MainProcess]:
    """The processes in cgroups of sandboxes and containers below a pod's that are not ``known``. Such is
    an init process whose ``runc create`` was cancelled: containerd's shim waits for it with its lock
    held, and answers nothing about the whole sandbox until it ends."""
    return _inside(
        parent, group, lambda leaf: (id := _ID.search(leaf)) is not None and id[0] not in known
    )


def _inside(
    parent: str, group: Callable[[int, str], str], is_wanted: Callable[[str], bool]
) -> list[MainProcess]:
    """The processes in cgroups below a pod's whose names are wanted."""
    found = []
    for pid in _processes():
        leaf = os.path.basename(group(pid, parent))
        start = start_time(pid) if leaf and is_wanted(leaf) else None
        found += [MainProcess(pid, start, 0)] if start is not None else []
    return found


def _processes() -> list[int]:
    """All processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_stray(pid: int, start: int, lost: LostPod) -> bool:
    """Whether a shim is of the pod, and nobody knows its sandbox."""
    id, gone = _bundle(pid)
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_CONFIG_BYTES).decode(errors="replace").split("\0")
    except OSError:
        return False
    if not id or id in lost.known:
        return False
    if id in lost.had:
        return True
    if gone:
        asked = lost.since is not None and start >= lost.since
        return asked and any(_same_file(word, lost.socket) for word in words)
    try:
        with open(f"/proc/{pid}/cwd/config.json", "rb") as file:
            config = msgspec.json.decode(file.read(_CONFIG_BYTES), type=_Config)
    except (OSError, msgspec.MsgspecError):
        return False
    return _below(config.linux.cgroups_path, lost.parent)


def _bundle(pid: int) -> tuple[str, bool]:
    """Whose bundle a shim is in, empty where that cannot be read; and whether it is deleted."""
    try:
        bundle = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "", False
    gone = bundle.endswith(" (deleted)")
    return os.path.basename(bundle.removesuffix(" (deleted)")).removeprefix("."), gone


def _same_file(one: str, other: str) -> bool:
    return one.startswith("/") and os.path.realpath(one) == os.path.realpath(other)


def ticks() -> int:
    """The time in clock ticks since the boot, as processes' starts are told."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def end(one: MainProcess) -> None:
    """Kill a process, if it still is that one."""
    descriptor = same_process(one)
    if descriptor is None:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


_CONFIG_BYTES = 1 << 20


class _Linux(Struct, rename={"cgroups_path": "cgroupsPath"}):
    """As much of an OCI configuration's ``linux`` as is read."""

    cgroups_path: str = ""


class _Config(Struct):
    """As much of an OCI configuration as is read."""

    linux: _Linux = field(default_factory=_Linux)


def _is_shim(pid: int) -> bool:
    try:
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False
    return program.startswith("containerd-shim")


def _below(path: str, parent: str) -> bool:
    """Whether a cgroupsPath is in a pod's group."""
    if parent.endswith(names.SLICE):
        return path.partition(":")[0] == os.path.basename(parent)
    return names.is_below(path, parent)
