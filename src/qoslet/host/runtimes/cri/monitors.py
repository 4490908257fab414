"""The processes that a runtime keeps beside containers: shims, monitors, who writes their logs.

They are found as parents of the containers' own processes.

Source: containerd runtime v2 shims; conmon(8), conmon-rs; proc(5).
"""

from __future__ import annotations

import os

from qoslet.core import names
from qoslet.host.runtimes.records import Proc, start_time

LEAF = "monitor"
"""The group below a pod's that they are charged to: no container has such an id."""

_PROGRAMS = ("containerd-shim", "conmon", "crio-conmon", "cri-o-conmon")


def monitor_of(pid: int) -> Proc | None:
    """Who watches over a container whose process this is; None where nobody known does."""
    parent = _parent(pid)
    if parent <= 1 or parent == os.getpid():
        return None
    try:
        program = os.path.basename(os.readlink(f"/proc/{parent}/exe")).removesuffix(" (deleted)")
    except OSError:
        return None
    start = start_time(parent)
    if start is None or not program.startswith(_PROGRAMS):
        return None
    return Proc(parent, start, 0)


def leaf_of(parent: str) -> str:
    """The monitors' group below a pod's."""
    if parent.endswith(names.SLICE):
        return f"{parent}/{names.process_leaf(parent, LEAF)}"
    return f"{parent.rstrip('/')}/{LEAF}"


def group_of(pid: int, below: str) -> str:
    """The group of a process, in the first hierarchy where it is below ``below``; empty where it
    is below it in none."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            paths = [line.rstrip("\n").split(":", 2)[2] for line in file]
    except (OSError, IndexError):
        return ""
    return next((path for path in paths if path.startswith(f"{below.rstrip('/')}/")), "")


def _parent(pid: int) -> int:
    """The number of a process's parent; 0 where it is not known."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
