"""Hugepages: names of sizes, limits of containers, pods and QoS cgroups."""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.core.quantity import Quantity, QuantityError, parse
from qoslet.core.rules.catalog import rule

UNBOUNDED = 1 << 62
"""What the QoS manager writes for "no limit". Source: qos_container_manager_linux.go."""

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")

PREFIX = "hugepages-"


def size_text(size: int) -> str:
    """A page size in bytes as cgroup files spell it (``2MB``, ``1GB``); ValueError if the size
    is not a whole number below 1024 of a unit. Source: cm hugePageSizeFromBytes (go-units)."""
    amount, unit = size, 0
    while amount >= 1024 and amount % 1024 == 0 and unit < len(_UNITS) - 1:
        amount //= 1024
        unit += 1
    if amount >= 1024 or amount <= 0:
        raise ValueError(f"hugepage size {size} is not a whole number of a unit")
    return f"{amount}{_UNITS[unit]}"


def size_of_resource(name: str) -> int | None:
    """Bytes of a page for a resource name such as ``hugepages-2Mi``; None where the rest is
    no quantity (``hugepages-2MB``), which the kubelet skips."""
    if not name.startswith(PREFIX):
        return None
    try:
        return parse(name.removeprefix(PREFIX)).value or None
    except QuantityError:
        return None


def by_size(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """Bytes by the text of a page size. Names of one size are added. Other resources, and sizes
    without a cgroup file, are skipped."""
    limits: dict[str, int] = {}
    for name, amount in amounts.items():
        size = size_of_resource(name)
        if size is None:
            continue
        try:
            text = size_text(size)
        except ValueError:
            continue
        limits[text] = limits.get(text, 0) + amount.value
    return limits


@rule("hugetlb.request", "kubelet pkg/kubelet/cm/helpers_linux.go HugePageLimits")
def _request(resource: str, amount: int) -> str:
    return f"{resource} {amount}" if amount else f"no {resource} requested -> 0"


@rule("hugetlb.unbounded", "kubelet qos_container_manager_linux.go setHugePagesUnbounded")
def _unbounded() -> str:
    return "every QoS update writes no limit (2^62), also to kubepods"


@rule("hugetlb.zero", "kubelet cgroup manager: a missing map counts as empty (PR 141991 open)")
def _zero() -> str:
    return "an update without hugepages writes 0 to every page size of the host"
