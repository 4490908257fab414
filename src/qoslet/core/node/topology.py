"""How the CPUs and the memory of a machine lie: cores, sockets, last-level caches, NUMA nodes.

Numbers are those that the kubelet compares: a core is called by its lowest CPU, a socket and a
cache by their place in the list, a NUMA node by its own number.
Source: kubelet pkg/kubelet/cm/cpumanager/topology Discover; cadvisor machine info.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.interface_files import cpu_numbers, joined

Cpus = frozenset[int]
Level = Literal["node", "socket", "cache", "core"]

LEVELS: tuple[Level, ...] = ("node", "socket", "cache", "core")
MOST_NODES = 64
"""NUMA nodes that fit into an affinity mask: kubelet topologymanager/bitmask."""

NO_CPUS: Cpus = frozenset()

Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
Scope = Literal["container", "pod"]

POLICIES: tuple[Policy, ...] = ("none", "best-effort", "restricted", "single-numa-node")
SCOPES: tuple[Scope, ...] = ("container", "pod")
MOST_CPUS = 1 << 17
"""CPUs of a machine at most, sixteen times as many as Linux has numbers for (NR_CPUS of x86: 8192)."""
MOST_PAGE_SIZES = 64
"""Sizes of hugepages of a machine at most: one for each power of two below 2^64."""
MAX_ALLOWABLE_NUMA_NODES = 8
"""NUMA nodes that a topology policy other than none takes, unless max-allowable-numa-nodes says
more: the sets are tried one by one."""
MAX_ENUMERATED_NUMA_NODES = 16
"""NUMA nodes of which every set can be tried in reasonable time."""


class NumaNode(Struct, frozen=True):
    """A NUMA node: its CPUs in list format, its memory and its hugepages (page size to bytes
    set aside) in bytes, and how far away each node is; ``distances`` is empty if not known."""

    cpus: str
    memory: int
    id: int = 0
    hugepages: Mapping[int, int] = {}
    distances: tuple[int, ...] = ()


class Layout(Struct, frozen=True):
    """Which CPUs (list format) make a socket, a physical core, a last-level cache. An empty list
    of cores means one thread a core, of sockets one socket, of caches one a socket."""

    sockets: tuple[str, ...] = ()
    cores: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()


def listed(cpus: Iterable[int]) -> str:
    """Numbers in list format, as cpuset files take them."""
    return joined(cpus)


class Topology:
    """The CPUs of a machine by level. ``flat``: nobody said how they lie."""

    def __init__(self, cpus: Cpus, layout: Layout | None, numa: Sequence[NumaNode]) -> None:
        self.cpus = cpus
        self.flat = layout is None
        self.nodes = tuple(sorted(numa, key=lambda node: node.id)) or (NumaNode(listed(cpus), 0),)
        shown = layout or Layout()
        sockets = _numbered(cpus, shown.sockets, dict.fromkeys(cpus, 0))
        first = self.nodes[0].id
        self._of: dict[Level, dict[int, int]] = {
            "node": dict.fromkeys(cpus, first)
            | {cpu: node.id for node in self.nodes for cpu in cpu_numbers(node.cpus) & cpus},
            "socket": sockets,
            "cache": _numbered(cpus, shown.caches, sockets),
            "core": _lowest(cpus, shown.cores),
        }
        self._whole = {level: self.groups(level, cpus) for level in LEVELS}

    def of(self, level: Level, cpu: int) -> int:
        """The group of a level that a CPU is in."""
        return self._of[level][cpu]

    def groups(self, level: Level, cpus: Iterable[int]) -> dict[int, Cpus]:
        """``cpus`` by their group of a level, groups without one left out."""
        of, found = self._of[level], dict[int, set[int]]()
        for cpu in cpus:
            found.setdefault(of[cpu], set()).add(cpu)
        return {group: frozenset(members) for group, members in found.items()}

    def whole(self, level: Level) -> Mapping[int, Cpus]:
        """Every CPU of every group of a level."""
        return self._whole[level]

    def count(self, level: Level) -> int:
        """How many groups of a level have CPUs."""
        return len(self._whole[level])

    def each(self, level: Level) -> int:
        """CPUs in a group of a level, on average, rounded down, at least 1."""
        return max(len(self.cpus) // max(self.count(level), 1), 1)

    def cores_of(self, cpus: Iterable[int]) -> Cpus:
        """``cpus`` and every thread that shares a core with one of them."""
        cores = {self._of["core"][cpu] for cpu in cpus}
        return frozenset().union(*(self._whole["core"][core] for core in cores))


def _numbered(cpus: Cpus, lists: Sequence[str], other: Mapping[int, int]) -> dict[int, int]:
    """Each CPU to the place of its list; those in none follow, by ``other``."""
    if not lists:
        return dict(other)
    found = {cpu: len(lists) + other[cpu] for cpu in cpus}
    for at, text in enumerate(lists):
        found.update(dict.fromkeys(cpu_numbers(text) & cpus, at))
    return found


def _lowest(cpus: Cpus, lists: Sequence[str]) -> dict[int, int]:
    """Each CPU to the lowest one that shares its core; one in no list is a core of its own."""
    found = {cpu: cpu for cpu in cpus}
    for text in lists:
        members = cpu_numbers(text) & cpus
        found.update(dict.fromkeys(members, min(members, default=0)))
    return found
