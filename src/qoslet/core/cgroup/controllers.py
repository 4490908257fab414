"""Decodes what the kernel prints about cgroups: paths of processes, hugepage directories.

Source: opencontainers/cgroups utils.go,
fs2/defaultpath.go, fs2/fs2.go; kubelet pkg/kubelet/cm; crun cgroup-utils.c.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from qoslet.core.rules.hugetlb import size_text

WANTED_V2 = frozenset({"cpu", "cpuset", "hugetlb", "memory", "pids"})
"""The controllers that the kubelet enables in a v2 cgroup, where the root has them."""


def own_path(lines: Iterable[str]) -> str:
    """The v2 path of a process from its /proc/PID/cgroup; ValueError on a pure v1 host."""
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers and path:
            return path.rstrip("\n")
    raise ValueError("the process is not in a v2 cgroup")


class HugepageSizes(Struct, frozen=True):
    """The sizes of a host as cgroup files spell them, and the directories without a valid size."""

    sizes: tuple[str, ...]
    unknown: tuple[str, ...]


def hugepage_sizes(names: Iterable[str]) -> HugepageSizes:
    """Decodes directory names of /sys/kernel/mm/hugepages; other prefixes are skipped."""
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
