"""Kubelets, container runtimes, OCI runtimes and qoslet agents of this machine, for ``doctor``.

Asks no daemon: it reads /proc, looks for sockets, and runs ``runc --version`` and ``crun --version``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal

from qoslet.core.cgroup.tree_owner import KUBELET, tree_owner
from qoslet.core.node.machine import NodeProgram, OciProgram
from qoslet.errors import CannotDo
from qoslet.host.linux.procfs import listed, text
from qoslet.host.linux.programs import find_program
from qoslet.host.state.agents import running_roots
from qoslet.host.state.folder import STATE, own_state_directory

_PROCESSES: dict[str, tuple[Literal["kubelet", "runtime"], str]] = {
    "kubelet": ("kubelet", "kubelet"),
    "kubelite": ("kubelet", "MicroK8s"),
    "k3s-server": ("kubelet", "k3s"),
    "k3s-agent": ("kubelet", "k3s"),
    "microshift": ("kubelet", "MicroShift"),
    "hyperkube": ("kubelet", "hyperkube"),
    "containerd": ("runtime", "containerd"),
    "crio": ("runtime", "CRI-O"),
    "dockerd": ("runtime", "dockerd"),
}
"""``comm`` of a process to what it is, at most 15 characters."""
_COMMANDS = {"hyperkube": "kubelet", "microshift": "run"}
"""Of programs that are several, the command that is a kubelet. Source: MicroShift cmd/microshift; OpenShift
before 4.8, kubelet.service."""

_SOCKETS = {
    "/run/containerd/containerd.sock": "containerd",
    "/run/k3s/containerd/containerd.sock": "containerd",
    "/run/crio/crio.sock": "CRI-O",
    "/run/docker.sock": "dockerd",
}
_VERSION = re.compile(rb"(?:runc|crun) version (\d+(?:\.\d+)+)")
ASK_SECONDS = 2.0


def node_programs(root: str = "") -> tuple[NodeProgram, ...]:
    """The kubelets and container runtimes, by their processes and sockets."""
    found = list(running_programs(root))
    for path, name in _SOCKETS.items():
        place = root + path
        if not os.path.exists(place):
            continue
        usable = os.access(place, os.R_OK | os.W_OK)
        at = next((n for n, one in enumerate(found) if one.name == name and not one.socket), None)
        if at is None:
            found.append(NodeProgram("runtime", name, None, path, usable))
        else:
            found[at] = NodeProgram("runtime", name, found[at].pid, path, usable)
    return tuple(found)


def running_programs(root: str = "") -> Iterator[NodeProgram]:
    """Those that run, by the names of their processes. One that has ended and waits for its parent has no
    command line."""
    for pid in sorted(int(name) for name in listed(f"{root}/proc") if name.isdigit()):
        comm = (text(f"{root}/proc/{pid}/comm") or "").strip()
        if comm in _PROCESSES and _is_meant(f"{root}/proc/{pid}", comm):
            kind, name = _PROCESSES[comm]
            yield NodeProgram(kind, name, pid)


def _is_meant(folder: str, comm: str) -> bool:
    """Whether a process has not ended, and runs the command that counts where its program has several."""
    line = text(f"{folder}/cmdline")
    if line == "":
        return False
    return comm not in _COMMANDS or (line or "").split("\0")[1:2] == [_COMMANDS[comm]]


def kubelet_trees(tops: list[str]) -> tuple[str, ...]:
    """The top cgroups that look like a kubelet's; ``tops`` are directories of mounted hierarchies."""
    found: set[str] = set()
    for top in tops:
        try:
            with os.scandir(top) as entries:
                names = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        found |= {f"/{name}" for name in names if tree_owner(f"/{name}") == KUBELET}
    return tuple(sorted(found))


def agent_states(root: str = "") -> list[str]:
    """The state directories of root's agents and of this user's."""
    found = [root + STATE]
    if not root:
        with suppress(CannotDo):
            found.append(own_state_directory(write=False))
    return list(dict.fromkeys(found))


def agent_roots(states: Sequence[str]) -> tuple[str, ...] | None:
    """The cgroup roots of the agents of these state directories, root's first; None where none is found and
    root's cannot be listed."""
    found = tuple(root for state in states for root in running_roots(state))
    if found or not os.path.isdir(states[0]) or os.access(states[0], os.R_OK | os.X_OK):
        return found
    return None


def oci_programs(root: str = "") -> tuple[OciProgram, ...]:
    """The OCI runtimes with their versions, both asked at once; none of a declared tree."""
    if root:
        return ()
    paths = {name: path for name in ("runc", "crun") if (path := find_program(name)) is not None}
    if not paths:
        return ()
    from subprocess import DEVNULL, PIPE, Popen, SubprocessError

    asked = []
    for name, path in paths.items():
        with suppress(OSError):
            asked.append((name, Popen([path, "--version"], stdout=PIPE, stderr=DEVNULL)))
    found = []
    for name, process in asked:
        try:
            out, _ = process.communicate(timeout=ASK_SECONDS)
        except (OSError, SubprocessError):
            process.kill()
            out, _ = process.communicate()
        version = _VERSION.match(out)
        found.append(OciProgram(name, "" if version is None else version[1].decode()))
    return tuple(found)


def bfq_devices(root: str = "") -> tuple[str, ...] | None:
    """The block devices whose I/O scheduler is BFQ; None where no device tells."""
    found, told = [], False
    try:
        devices = sorted(os.listdir(f"{root}/sys/block"))
    except OSError:
        return None
    for device in devices:
        schedulers = text(f"{root}/sys/block/{device}/queue/scheduler")
        told = told or schedulers is not None
        if "[bfq]" in (schedulers or ""):
            found.append(device)
    return tuple(found) if told else None


def device_bpf(root: str, release: str) -> bool | None:
    """Whether the kernel has CONFIG_CGROUP_BPF; None where its configuration cannot be read."""
    settings = text(f"{root}/boot/config-{release}")
    if settings is None:
        packed = f"{root}/proc/config.gz"
        if not os.path.exists(packed):
            return None
        from gzip import open as unpack

        try:
            with unpack(packed, "rt", encoding="ascii", errors="replace") as file:
                settings = file.read()
        except (OSError, EOFError):
            return None
    return "\nCONFIG_CGROUP_BPF=y" in f"\n{settings}"
