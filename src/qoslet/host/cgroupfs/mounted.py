"""Where control groups are mounted on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.host.linux.mountinfo import MountPoint as MountPoint
from qoslet.host.linux.mountinfo import mounts as mounts

if TYPE_CHECKING:
    from qoslet.core.node.node import Hierarchy

CGROUP = "/sys/fs/cgroup"
_V1_CONTROLLERS = {
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "misc",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
}


class CgroupMounts(Struct, frozen=True):
    """Mount points by hierarchy. ``where``: v1 controller to mount point."""

    hierarchy: Hierarchy | None
    where: dict[str, str]
    """v1: controller to mount point."""
    unified: MountPoint | None


def cgroup_mounts(root: str = "") -> list[MountPoint]:
    """What ``cgroups`` goes by: a machine with containers has a hundred other mounts."""
    return mounts(root, (" - cgroup", f" {CGROUP} "))


def cgroups(table: list[MountPoint]) -> CgroupMounts:
    """Which hierarchy the machine has: v2 where cgroup2 is mounted at the usual place, else v1
    where controllers are mounted on their own (a hybrid host, too), else v2 mounted elsewhere.

    Of a controller mounted twice the shortest mount point counts, as in the kubelet.
    """
    where: dict[str, str] = {}
    for mount in table:
        if mount.type == "cgroup":
            for name in _V1_CONTROLLERS.intersection(mount.options):
                if name not in where or len(mount.point) < len(where[name]):
                    where[name] = mount.point
    unified = [mount for mount in table if mount.type == "cgroup2"]
    unified.sort(key=lambda mount: len(mount.point))
    usual = [mount for mount in table if mount.point == CGROUP]
    if usual and usual[-1].type == "cgroup2":
        return CgroupMounts("v2", {}, usual[-1])
    if where:
        return CgroupMounts("v1", where, unified[0] if unified else None)
    return CgroupMounts("v2" if unified else None, {}, unified[0] if unified else None)


class HierarchyMounts(Struct, frozen=True):
    """Which hierarchy this machine has; v1: controller to mount point; where v2 is mounted."""

    hierarchy: Hierarchy | None
    mounts: dict[str, str]
    unified: str | None


def mounted(root: str = "") -> HierarchyMounts:
    """Only where control groups are: what ``probe`` says of them, without the rest."""
    groups = cgroups(cgroup_mounts(root))
    point = groups.unified.point if groups.unified is not None else None
    return HierarchyMounts(groups.hierarchy, dict(sorted(groups.where.items())), point)
