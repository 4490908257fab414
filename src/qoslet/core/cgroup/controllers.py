"""What the kernel says about cgroups, read: file system types, mounts, controllers, lists.

Decoders of text that somebody else has read. Source: opencontainers/cgroups utils.go,
fs2/defaultpath.go, fs2/fs2.go; kubelet pkg/kubelet/cm; crun cgroup-utils.c.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from qoslet.core.rules.hugetlb import size_text

CGROUP2_SUPER_MAGIC = 0x63677270
TMPFS_MAGIC = 0x01021994

WANTED_V2 = frozenset({"cpu", "cpuset", "hugetlb", "memory", "pids"})
"""The controllers that the kubelet asks of a v2 group, where the root has them."""

WANTED_V1 = frozenset({"cpu", "cpuacct", "cpuset", "memory"})
"""The controllers without whose mounts a kubelet does not start on v1."""

Mode = Literal["unified", "hybrid", "legacy"]


def mode_of(f_type: int, unified_below: bool = False) -> Mode:
    """The cgroup mode of a host by ``statfs`` of /sys/fs/cgroup; ``unified_below`` tells that
    its directory ``unified`` is cgroup2. ValueError where nothing is mounted for cgroups."""
    if f_type == CGROUP2_SUPER_MAGIC:
        return "unified"
    if f_type != TMPFS_MAGIC:
        raise ValueError(f"/sys/fs/cgroup has file system type {f_type:#x}, not cgroup")
    return "hybrid" if unified_below else "legacy"


def own_path(lines: Iterable[str]) -> str:
    """The v2 path of a process from its /proc/PID/cgroup; ValueError on a pure v1 host."""
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers and path:
            return path.rstrip("\n")
    raise ValueError("the process is not in a v2 cgroup")


def process_ids(lines: Iterable[str]) -> list[int]:
    """The processes of a ``cgroup.procs``; empty lines do not count, ValueError for others."""
    found = []
    for line in lines:
        text = line.strip()
        if not text:
            continue
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"cgroup.procs holds {text!r}")
        found.append(int(text))
    return found


class HugepageSizes(Struct, frozen=True):
    """The sizes of a host as cgroup files spell them, and the directories that name none."""

    sizes: tuple[str, ...]
    unknown: tuple[str, ...]


def hugepage_sizes(names: Iterable[str]) -> HugepageSizes:
    """Directory names of /sys/kernel/mm/hugepages; those of another prefix are not meant."""
    sizes, unknown = [], []
    for name in names:
        if not name.startswith("hugepages-"):
            continue
        number = name.removeprefix("hugepages-").removesuffix("kB")
        try:
            if not name.endswith("kB") or not (number.isascii() and number.isdigit()):
                raise ValueError(name)
            sizes.append(size_text(int(number) << 10))
        except ValueError:
            unknown.append(name)
    return HugepageSizes(tuple(sizes), tuple(unknown))


def missing_v2(root: Iterable[str], group: Iterable[str]) -> tuple[str, ...]:
    """The controllers that a v2 group lacks, sorted; those that the root lacks are not missed.
    Source: kubelet cgroup_v2_manager_linux.go Validate."""
    return tuple(sorted((WANTED_V2 & frozenset(root)) - frozenset(group)))


def missing_v1(mounts: Iterable[str]) -> tuple[str, ...]:
    """The controllers that no v1 mount has, sorted; a mount names several with commas.
    Source: kubelet cm validateSystemRequirements."""
    found = {controller for mount in mounts for controller in mount.split(",")}
    return tuple(sorted(WANTED_V1 - found))


def unified_fault(key: str, controllers: Iterable[str], write_failed: bool) -> str:
    """Why a key of a unified map cannot be written; empty where nothing speaks against it.

    Only the slash is judged beforehand; the rest explains a write that failed with ENOENT or
    EPERM. Source: opencontainers/cgroups fs2 setUnified.
    """
    if "/" in key:
        return f"{key!r} must be a file name (no slashes)"
    if not write_failed:
        return ""
    controller, dot, _ = key.partition(".")
    if not dot:
        return f"{key!r} must be in the form CONTROLLER.PARAMETER"
    if controller != "cgroup" and controller not in frozenset(controllers):
        return f"{key!r} cannot be set: controller {controller!r} not available"
    return ""
