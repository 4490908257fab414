"""Who writes which file of a node's groups, and when: what happens to a value set by hand.

Source: kubelet 1.36 pkg/kubelet/cm (node_container_manager_linux.go, qos_container_manager_
linux.go, pod_container_manager_linux.go), containerd and CRI-O as called through the CRI.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Place = Literal["kubepods", "qos", "pod", "container", "reserved", "unit", "controllers"]


class Row(Struct, frozen=True):
    """Files by their beginning at one place, their writer, and when it writes them again."""

    place: Place
    files: tuple[str, ...]
    writer: str
    when: str


_STARTUP = "at its start, then each minute until it works"
_QOS = "with each QoS update, at most a minute later"

ROWS: tuple[Row, ...] = (
    Row("kubepods", ("memory.min", "memory.low"), "kubelet", f"{_QOS} (Memory QoS)"),
    Row("kubepods", ("hugetlb.",), "kubelet", _QOS),
    Row("kubepods", ("cpu.", "memory.", "pids.", "cpuset."), "kubelet", _STARTUP),
    Row("qos", ("cpu.weight", "cpu.shares", "hugetlb."), "kubelet", _QOS),
    Row("qos", ("memory.low", "memory.min"), "kubelet", f"{_QOS} (Memory QoS)"),
    Row("qos", ("memory.max", "memory.limit_in_bytes"), "kubelet", f"{_QOS} (--qos-reserved)"),
    Row("pod", ("cpu.", "memory.", "hugetlb."), "kubelet", "when the pod is made or resized"),
    Row("pod", ("pids.",), "kubelet", "when the pod is made"),
    Row("container", ("cpuset.cpus",), "kubelet's CPU manager", "every 10 seconds (static policy)"),
    Row("container", ("",), "container runtime", "when the container is made or resized"),
    Row("reserved", ("cpu.", "memory.", "pids.", "hugetlb.", "cpuset."), "kubelet", "at its start"),
    Row("unit", ("",), "systemd", "at the next daemon-reload or set-property of the unit"),
    Row("controllers", ("",), "systemd", "when a unit needs a controller or needs it no more"),
)
"""The first row that fits counts. Values outside the table are left alone by everybody."""

_UNITS = (".slice", ".service", ".scope", ".socket", ".mount", ".swap")


def row_of(place: Place, file: str) -> Row | None:
    """Who writes a file at a place; None: nobody does."""
    for row in ROWS:
        if row.place == place and file.startswith(row.files):
            return row
    return None


def place_of(path: str, root: str) -> Place:
    """Where a group stands: by its name below ``root/kubepods``, else as somebody's own."""
    inner = path.removeprefix(root) if path == root or path.startswith(f"{root}/") else None
    parts = [part for part in (inner or "").split("/") if part]
    if inner is None:
        return "unit" if path.endswith(_UNITS) else "reserved"
    last = parts[-1] if parts else ""
    if last.endswith(".slice"):
        last = last.removesuffix(".slice").rpartition("-")[2]
    if last.startswith("pod"):
        return "pod"
    if last in ("burstable", "besteffort"):
        return "qos"
    return "kubepods" if len(parts) <= 1 else "container"


def resets(path: str, file: str, root: str, owned: bool) -> str:
    """Who would reset a value and when, as the end of a sentence.

    ``owned``: the group was made by us, so no other manager looks after it.
    """
    if owned:
        return "nobody resets it but qoslet: the next apply writes ours again"
    place: Place = "controllers" if file == "cgroup.subtree_control" else place_of(path, root)
    row = row_of(place, file)
    if row is None:
        return "nobody resets it"
    return f"{row.writer} resets it {row.when}"
