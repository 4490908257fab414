"""Replaces names, the same one by the same, so that a bundle can be shown to strangers.

What stands for a name is counted, not computed from it, so nobody can guess it back. Words that
kubelets, runtimes and systemd give to cgroups themselves stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from qoslet.core.bundle.rows import CgroupRow, UnitRow
from qoslet.core.cgroup.names import DEFAULT_POINT, UNIT_ENDINGS, is_at_or_below

_USUAL = frozenset(
    (
        "kubepods", "burstable", "besteffort", "guaranteed", "qoslet", "kubelet", "podruntime",
        "runtime", "kube", "system", "user", "machine", "init", "docker", "k8s.io", "crio",
        "cri", "containerd", "libpod", "libpod_parent", "dockerd", "systemd",
    )
)  # fmt: skip
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
_ID = re.compile(r"[0-9a-f]{64}")
_SCOPE = re.compile(r"(cri-containerd|crio-conmon|crio|docker|libpod-conmon|libpod|runc)-(.+)")
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "storage", "pods", "pid")
_KEPT: Mapping[str, tuple[str, ...]] = {
    "namespace": ("default", "kube-system"),
    "class": ("system-node-critical", "system-cluster-critical"),
    "owner kind": (
        "Node", "DaemonSet", "ReplicaSet", "StatefulSet", "Job", "CronJob", "Deployment",
        "PodTemplate", "ReplicationController",
    ),
    "condition": (
        "Ready", "Initialized", "ContainersReady", "PodScheduled", "PodReadyToStartContainers",
        "DisruptionTarget", "PodResizePending", "PodResizeInProgress", "MemoryPressure",
        "DiskPressure", "PIDPressure", "NetworkUnavailable",
    ),
}  # fmt: skip
"""Names that every cluster has."""


class Pseudonyms:
    """What stands for each name; a mapping of a kind and a name to a number."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, kind: str, name: str) -> str:
        """What stands for a name of this kind (``fields.Rename``)."""
        if kind in ("uid", "container ID"):
            number = self._number(kind, name.replace("_", "-"))
            return (
                f"{number:08x}-0000-4000-8000-{number:012x}" if kind == "uid" else f"{number:064x}"
            )
        if name in _KEPT.get(kind, ()):
            return name
        if kind == "owner kind":
            return f"Owner{self._number(kind, name)}"
        if kind == "resource":
            if name in _RESOURCES or name.startswith("hugepages-"):
                return name
            return f"example.com/resource-{self._number(kind, name)}"
        if kind == "image":
            return f"example.com/image-{self._number(kind, name)}"
        return f"{kind}-{self._number(kind, name)}"

    def _number(self, kind: str, name: str) -> int:
        key = (kind, name)
        if key not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._known[key] = self._counts[kind]
        return self._known[key]

    def knows(self, kind: str, name: str) -> bool:
        """Whether the name was met as one of this kind."""
        return (kind, name) in self._known

    def path(self, path: str) -> str:
        """A cgroup's path, component by component."""
        found: list[str] = []
        in_pod = False
        for name in path.split("/"):
            found.append(self._below_pod(name, found[-1]) if in_pod else self.component(name))
            in_pod = in_pod or self._is_pod(_last_level(name))
        return "/".join(found)

    def component(self, name: str) -> str:
        """One component of a cgroup's path, or a unit's name."""
        scope = _SCOPE.fullmatch(name.removesuffix(".scope")) if name.endswith(".scope") else None
        if scope is not None:
            return f"{scope[1]}-{self('container ID', scope[2])}.scope"
        unit, _, rest = name.partition(":")
        strayed = _SCOPE.fullmatch(rest.replace(":", "-", 1)) if unit.endswith(".slice") else None
        if strayed is not None and rest == f"{strayed[1]}:{strayed[2]}":
            return f"{self.component(unit)}:{strayed[1]}:{self('container ID', strayed[2])}"
        for ending in UNIT_ENDINGS:
            if name.endswith(ending) and name != ending:
                stem = name.removesuffix(ending)
                if ending == ".slice":
                    # - separates levels, and _ stands for it in one
                    return "-".join(self._word(part, "_") for part in stem.split("-")) + ending
                return f"{self._word(stem, '')}{ending}"
        return self._word(name, "-")

    def _word(self, name: str, dash: str) -> str:
        """A word of a cgroup's name. ``dash`` is what it has for ``-``."""
        plain = name.replace("_", "-") if dash == "_" else name
        if not plain or plain in _USUAL:
            return name
        if self._is_pod(plain):
            return f"pod{self('uid', plain.removeprefix('pod'))}".replace("-", dash or "-")
        return f"cgroup{self._number('cgroup', plain)}"

    def _is_pod(self, name: str) -> bool:
        """Whether a word is the cgroup of a pod."""
        uid = name.removeprefix("pod")
        return uid != name and (self.knows("uid", uid) or _UID.fullmatch(uid) is not None)

    def _below_pod(self, name: str, above: str) -> str:
        """A component below a pod's: a container by its ID or its name."""
        if name.endswith(".scope"):
            if _SCOPE.fullmatch(name.removesuffix(".scope")):
                return self.component(name)
            parts = name.removesuffix(".scope").split("-")
            ends = ["-".join(parts[at:]) for at in range(1, len(parts))] or parts
            container = next((end for end in ends if self.knows("container", end)), ends[-1])
            begin = above.removesuffix(".slice")
            return f"{begin}-{self('container', container)}.scope"
        is_id = self.knows("container ID", name) or _ID.fullmatch(name)
        return self("container ID" if is_id else "container", name)


def _last_level(name: str) -> str:
    """The last word of a component, which in a slice ``-`` separates from those above."""
    if not name.endswith(".slice"):
        return name
    return name.removesuffix(".slice").rpartition("-")[2].replace("_", "-")


def redacted_cgroups(rows: Iterable[CgroupRow], names: Pseudonyms) -> list[CgroupRow]:
    """The cgroups under other paths."""
    return [replace(row, path=names.path(row.path)) for row in rows]


def redacted_units(rows: Iterable[UnitRow], names: Pseudonyms) -> list[UnitRow]:
    """The units under other names: those of their cgroups."""
    return [_unit(row, names) for row in rows]


def _unit(row: UnitRow, names: Pseudonyms) -> UnitRow:
    cgroup = row.properties.get("ControlGroup", "")
    own = cgroup.rpartition("/")[2] == row.unit
    unit = names.path(cgroup).rpartition("/")[2] if own else names.component(row.unit)
    changed = dict(row.properties)
    if cgroup:
        changed["ControlGroup"] = names.path(cgroup)
    if changed.get("Slice"):
        changed["Slice"] = names.component(changed["Slice"])
    return UnitRow(unit, changed)


def redacted_kubelet(document: Mapping[str, Any], names: Pseudonyms) -> dict[str, Any]:
    """A KubeletConfiguration with other cgroups."""
    found = dict(document)
    for field in ("cgroupRoot", "kubeReservedCgroup", "systemReservedCgroup"):
        if found.get(field):
            found[field] = names.path(str(found[field]))
    return found


def redacted_machine(document: Mapping[str, Any], names: Pseudonyms) -> dict[str, Any]:
    """qoslet's Node under another name, with other mount points and resources."""
    found = dict(document)
    meta = found.get("metadata")
    if isinstance(meta, Mapping) and meta.get("name"):
        found["metadata"] = {"name": names("node", str(meta["name"]))}
    capacity = found.get("capacity")
    if isinstance(capacity, Mapping):
        found["capacity"] = {names("resource", name): value for name, value in capacity.items()}
    host = found.get("host")
    if isinstance(host, Mapping) and isinstance(host.get("mounts"), Mapping):
        mounts = {name: mount_point(str(at), names) for name, at in host["mounts"].items()}
        found["host"] = {**host, "mounts": mounts}
    return found


def mount_point(path: str, names: Pseudonyms) -> str:
    """Where a hierarchy is mounted; the usual places stay."""
    if not path.startswith("/") or is_at_or_below(path, DEFAULT_POINT):
        return path
    return names.path(path)
