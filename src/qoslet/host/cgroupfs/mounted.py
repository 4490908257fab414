"""Where control groups are mounted on this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.errors import CannotDo
from qoslet.host.linux.mountinfo import MountPoint as MountPoint
from qoslet.host.linux.mountinfo import mounts as mounts

if TYPE_CHECKING:
    from qoslet.core.node.node import Hierarchy

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
    """Mount points by hierarchy."""

    hierarchy: Hierarchy | None
    where: dict[str, str]
    """v1: controller to mount point."""
    unified: MountPoint | None


def cgroup_mounts(root: str = "") -> list[MountPoint]:
    """What ``cgroups`` goes by: a machine with containers has a hundred other mounts."""
    return mounts(root, (" - cgroup", f" {DEFAULT_POINT} "))


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
    usual = [mount for mount in table if mount.point == DEFAULT_POINT]
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

    @property
    def points(self) -> dict[str, str]:
        """Those of the hierarchy, as ``layout_of`` takes them."""
        if self.hierarchy != "v2" or self.unified is None:
            return self.mounts
        return {"unified": self.unified}


def mounted() -> HierarchyMounts:
    """Only where control groups are: what ``probe`` says of them, without the rest."""
    groups = cgroups(cgroup_mounts())
    point = groups.unified.point if groups.unified is not None else None
    return HierarchyMounts(groups.hierarchy, dict(sorted(groups.where.items())), point)


def required_mounts(described: Hierarchy | None = None) -> tuple[Hierarchy, dict[str, str]]:
    """This machine's hierarchy with its mount points, as ``layout_of`` takes both. Raises CannotDo where
    there is none, or another one than that of the node that is ``described``."""
    here = mounted()
    if here.hierarchy is None:
        raise CannotDo("no cgroup file system mounted", hint="see qoslet doctor")
    if described not in (None, here.hierarchy):
        raise CannotDo(
            f"the node is described with cgroup {described}, this machine has {here.hierarchy}",
            hint=f"give the documents of this machine, or --hierarchy {here.hierarchy}",
        )
    return here.hierarchy, here.points


def is_cgroup(path: str) -> bool:
    """Whether a cgroup is there, in any hierarchy. Raises CannotDo where none is mounted."""
    return any(os.path.isdir(f"{point}{path}") for point in required_mounts()[1].values())
