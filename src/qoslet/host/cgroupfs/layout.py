"""The hierarchies of a machine's cgroups, as a driver and readers use them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.host.linux.openat import KEPT, MountedTree

if TYPE_CHECKING:
    from qoslet.host.cgroupfs.v2 import HierarchyV2


class CgroupLayout(Protocol):
    """The hierarchies of a group (``v1.HierarchiesV1``, ``v2.HierarchyV2``)."""

    name: str
    trees: tuple[MountedTree, ...]

    def tree_of(self, controller: str) -> MountedTree | None:
        """The hierarchy of a controller."""

    def controllers_of(self, tree: MountedTree) -> tuple[str, ...]:
        """The controllers of a hierarchy."""

    def create(self, path: str) -> bool:
        """Make a group."""

    def regain(self, path: str) -> bool:
        """Enable again what somebody switched off above a group; whether it has more now."""

    def not_domain(self, path: str) -> str:
        """The type of a v2 group that is no domain."""

    def written(self, path: str, file: str) -> None:
        """A file was set."""

    def removed(self, path: str) -> None:
        """A group is gone."""

    def make_lines(self, path: str) -> list[str]:
        """The shell commands of ``create``."""


def layout_of(
    hierarchy: str, mounts: Mapping[str, str] | str, *, keeps: int = KEPT
) -> CgroupLayout:
    """The hierarchies of ``mounts``: v1 controller to mount point; v2 the mount point, or a
    mapping that has it under ``unified`` (default /sys/fs/cgroup). ``keeps`` is as for
    ``MountedTree``."""
    opened = partial(MountedTree, keeps=keeps)
    # imported where it is mounted: a machine has one of both
    if hierarchy == "v1":
        from qoslet.host.cgroupfs.v1 import HierarchiesV1

        return HierarchiesV1({} if isinstance(mounts, str) else mounts, opened)
    from qoslet.host.cgroupfs.v2 import HierarchyV2

    point = mounts if isinstance(mounts, str) else mounts.get("unified", DEFAULT_POINT)
    return HierarchyV2(point, opened=opened)


def unified(layout: CgroupLayout) -> HierarchyV2 | None:
    """The one hierarchy of v2; None on v1."""
    if layout.name == "v1":
        return None
    from qoslet.host.cgroupfs.v2 import HierarchyV2

    assert isinstance(layout, HierarchyV2)
    return layout
