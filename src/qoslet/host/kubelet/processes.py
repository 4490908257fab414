"""Kubelets among the processes of this machine.

A process of another user than root and ourselves is passed over: whoever names a program kubelet
must not decide which files are read here.
"""

from __future__ import annotations

import os
import time

from msgspec import Struct

from qoslet.host.cgroupfs.mounted import mounted
from qoslet.host.linux.procfs import text
from qoslet.host.machine.node_programs import running_programs

_DEVICE_SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
"""Whatever the kubelet's root directory is. Source: kubelet pluginapi constants.go KubeletSocket."""
_WAITING_SECONDS = 600.0
"""How long a kubelet is taken to wait with it."""


class KubeletProcess(Struct, frozen=True):
    """A kubelet that runs. ``name`` is what it is part of (``kubelet``, ``k3s``, ``MicroK8s``),
    ``folder`` its directory in /proc, ``arguments`` its command line without the program."""

    pid: int
    name: str
    folder: str
    arguments: tuple[str, ...]


def kubelet_processes(
    root: str = "", named: int | None = None
) -> tuple[list[KubeletProcess], list[int]]:
    """The kubelets, and the processes called so that belong to other users. ``root`` stands in
    front of /proc. ``named`` is a process that is said to be one: ``kubelet`` need only be in the
    name of its program, as in ``kubelet-1.36``."""
    found: list[KubeletProcess] = []
    others: list[int] = []
    programs = {
        one.pid: one.name
        for one in running_programs(root)
        if one.kind == "kubelet" and one.pid is not None
    }
    if named is not None:
        programs.setdefault(named, "")
    for pid, name in programs.items():
        folder = f"{root}/proc/{pid}"
        try:
            owner = os.stat(folder).st_uid
            with open(f"{folder}/cmdline", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")[:-1]
        except OSError:
            continue
        if not words or not (name or "kubelet" in os.path.basename(words[0])):
            continue
        if owner not in (0, os.geteuid()):
            others.append(pid)
            continue
        found.append(KubeletProcess(pid, name or "kubelet", folder, tuple(words[1:])))
    return found, others


def has_exited(process: KubeletProcess) -> bool:
    """Whether a kubelet that was found is gone by now, or only waits for its parent."""
    return not text(f"{process.folder}/cmdline")


def shares_namespace(process: KubeletProcess, kind: str) -> bool | None:
    """Whether a process is in our namespace of a ``kind`` (``net``, ``mnt``); None where this user
    may not know."""
    try:
        there = os.readlink(f"{process.folder}/ns/{kind}")
        here = os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return None
    return there == here


def shares_cgroups(process: KubeletProcess) -> bool | None:
    """Whether a process sees the cgroups that we see: not one in a container that has cgroups of its own,
    as a node of kind or minikube is; None where this user may not know.

    Source: cgroup_namespaces(7); a mount in another namespace has that one's root, by its inode.
    """
    here = mounted()
    point = here.unified if here.hierarchy == "v2" else here.mounts.get("memory")
    try:
        ours = os.stat(point or "").st_ino
        theirs = os.stat(f"{process.folder}/root{point}").st_ino
    except OSError:
        return None
    return ours == theirs


def age_seconds(process: KubeletProcess) -> float | None:
    """How long a process has run; None where this machine does not tell."""
    uptime, started = text("/proc/uptime"), started_at(process)
    if uptime is None or started is None:
        return None
    return float(uptime.split()[0]) - started / os.sysconf("SC_CLK_TCK")


def started_at(process: KubeletProcess) -> int | None:
    """When a process started, in clock ticks since boot; None where this machine does not tell.

    Source: proc(5), field 22 of /proc/PID/stat.
    """
    fields = (text(f"{process.folder}/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) >= 20 and fields[19].isdecimal() else None


def working_seconds(process: KubeletProcess) -> float | None:
    """How long a kubelet has looked after its cgroups; 0 while it has not begun, None where this machine
    does not tell its age. It may start long before: it then waits for its runtime and the API server.

    Source: kubelet cm/container_manager_linux.go Start: after the QoS cgroups it begins with device
    plugins, whose socket it makes anew. Where that is not to be seen, it has begun at once.
    """
    age = age_seconds(process)
    try:
        begun = time.time() - os.stat(f"{process.folder}/root{_DEVICE_SOCKET}").st_mtime
    except OSError:
        return age
    if age is None or age > _WAITING_SECONDS or begun < 0:
        return age
    return begun if begun <= age else 0.0
