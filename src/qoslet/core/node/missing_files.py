"""What a described host lacks of the files that a plan writes: controllers, and files that came
with a later kernel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.kernel_files import KernelRow, Version, older, since, telling
from qoslet.core.node.host_facts import kernel_version
from qoslet.core.node.node import PLANNED_CONTROLLERS, Hierarchy, HostFacts, Node
from qoslet.core.problem import Problem

_PROBES = {name: f"{name}.max" for name in sorted(PLANNED_CONTROLLERS)}


class MissingFiles(Struct, frozen=True):
    """The controllers that a host does not have, and its kernel where its version tells what it
    has."""

    hierarchy: Hierarchy
    controllers: frozenset[str]
    kernel: Version | None

    def row(self, file: str) -> KernelRow | None:
        """The kernel that would have the file, if this one is too old."""
        return older(file, self.hierarchy, self.kernel)

    def lacks(self, file: str) -> bool:
        """Whether the host does not have the file. Of reservations of huge pages the host says so
        itself (``hugetlb_rsvd``)."""
        row = self.row(file)
        return controller(file) in self.controllers or (row is not None and row.name != ".rsvd.")

    def why(self, file: str) -> str:
        """One sentence; empty if the host has the file."""
        row = self.row(file)
        if row is not None:
            return f"kernel {text(self.kernel)} {_has_not(row, self.hierarchy)}"
        if controller(file) in self.controllers:
            return f"the host has no {controller(file)} controller"
        return ""

    def too_old(self, name: str) -> KernelRow | None:
        """The row of a controller that the kernel does not have."""
        row = self.row(_PROBES[name])
        return row if row is not None and row.name == name else None


def text(version: Version | None) -> str:
    """``5.6``."""
    return "" if version is None else f"{version[0]}.{version[1]}"


def _has_not(row: KernelRow, hierarchy: Hierarchy) -> str:
    first = text(since(row, hierarchy))
    if row.name in PLANNED_CONTROLLERS:
        return f"has no {row.name} controller on cgroup {hierarchy} (Linux {first} is the first)"
    what = f"hugetlb{row.name.rstrip('.')}" if row.name[0] == "." else row.name
    return f"has no {what} (Linux {first} is the first)"


def missing_files(host: HostFacts) -> MissingFiles | None:
    """What a Linux host lacks; None if it lacks nothing, or nothing is known."""
    return _missing(host.hierarchy, host.controllers, host.kernel)


def without_undelegated(node: Node, reasons: Mapping[str, str]) -> tuple[Node, list[Problem]]:
    """The node as cgroups below a root see it that do not get every controller of the machine, and
    what is to be said of each: ``reasons`` has why, by controller."""
    names: dict[str, list[str]] = {}
    for name, why in sorted(reasons.items()):
        names.setdefault(why, []).append(name)
    there = PLANNED_CONTROLLERS if node.host.controllers is None else node.host.controllers
    host = replace(node.host, controllers=there.difference(reasons))
    where, hint = "this machine: host.controllers", "run as root to have them written"
    return replace(node, host=host), [
        Problem("warning", where, f"{', '.join(some)} files are not written: {why}", hint)
        for why, some in names.items()
    ]


@lru_cache(maxsize=8)
def _missing(
    hierarchy: Hierarchy, controllers: frozenset[str] | None, kernel: str | None
) -> MissingFiles | None:
    version = kernel_version(kernel) if telling(kernel) else None
    gone = frozenset() if controllers is None else PLANNED_CONTROLLERS - controllers
    found = MissingFiles(hierarchy, gone, version)
    old = any(found.row(file) for file in _PLANNED)
    return found if gone or old else None


_PLANNED = (
    *_PROBES.values(),
    "memory.min",
    "memory.oom.group",
    "memory.swap.max",
    "hugetlb.2MB.rsvd.max",
)
"""Files of a plan of which each row above is one."""
