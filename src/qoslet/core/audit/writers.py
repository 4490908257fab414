"""Who writes a file of a planned cgroup, who else may have, and what resets it."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from qoslet.core.cgroup.interface_files import property_of
from qoslet.core.node.node import Node
from qoslet.core.reconcile.file_writers import Level, resets, writer_of
from qoslet.core.resources.cgroup_tree import Cgroup

_WRITERS = {
    "kubelet": "kubelet",
    "kubelet's CPU manager": "kubelet",
    "container runtime": "runtime",
    "systemd": "systemd",
    "qoslet": "qoslet",
}
ROOT = "a process with root's rights that wrote the file"
_SYSTEMD = "systemd, with systemctl set-property or a drop-in of the unit"
_OOM_POLICY = (
    "systemd, which writes what the unit's OOMPolicy says with each property of the unit, and after a"
    " daemon-reload when a container beside it starts or gets a property"
)


class Ownership(Struct, frozen=True):
    """``writer`` as findings name it (None: nobody writes the file); ``reset_by`` is a sentence."""

    writer: str | None
    may_have: tuple[str, ...]
    reset_by: str


def level_of(cgroup: Cgroup, root: str) -> Level:
    """The level of a planned cgroup in the table of writers."""
    if cgroup.level == "node":
        return "kubepods" if cgroup.name == root or root.startswith(cgroup.name) else "reserved"
    return cgroup.level


def ownership(
    cgroup: Cgroup, file: str, node: Node, root: str, *, is_kept: bool = False
) -> Ownership:
    """Who owns ``file`` there. ``root`` is the abstract name of the cgroup of all pods. ``is_kept``: systemd has
    the value as a property, and does not reset it."""
    own = any(setting.writer == "qoslet" for setting in cgroup.settings)
    own = own or node.profile.runtime.is_own
    level: Level = "qoslet" if own else level_of(cgroup, root)
    is_unit = cgroup.unit is not None
    return _ownership(level, file, node.profile.minor, is_unit, node.hierarchy, is_kept)


@lru_cache(maxsize=1024)
def _ownership(
    level: Level, file: str, minor: int, unit: bool, hierarchy: str, is_kept: bool
) -> Ownership:
    row = writer_of(level, file, minor)
    may_have = [ROOT]
    if unit and property_of(file, hierarchy, None) is not None:
        may_have.append(_SYSTEMD)
    elif unit and file == "memory.oom.group":
        may_have.append(_OOM_POLICY)
    if row is not None:
        may_have.append(f"{row.writer}, {row.when}")
    writer = None if row is None else _WRITERS.get(row.writer, row.writer)
    return Ownership(writer, tuple(may_have), resets(row, file, unit and not is_kept))
