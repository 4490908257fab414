"""What pods and containers use, and how near they are to their limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from qoslet.core.cgroup.usage.fair_share import cap_of
from qoslet.core.status.snapshot import GroupRow
from qoslet.core.workload.pod_status import PodUsage

_NO_LIMIT = 1 << 60
"""From here on a byte count stands for no limit: v1 prints 2^63 less a page."""


def cpu_limit(row: GroupRow) -> float | None:
    """The CPU quota in cores; None without one."""
    return cap_of({**row.planned, **row.found})


def memory_limit(row: GroupRow) -> int | None:
    """The memory limit in bytes; None without one."""
    files = {**row.planned, **row.found}
    text = files.get("memory.max") or files.get("memory.limit_in_bytes", "")
    return int(text) if text.isdigit() and int(text) < _NO_LIMIT else None


def share(used: float | None, limit: float | None) -> float | None:
    """``used`` as a share of ``limit``; None where either is unknown."""
    return None if used is None or not limit else used / limit


def usage_of(groups: Sequence[GroupRow], seconds: float | None) -> Mapping[str, PodUsage]:
    """The usage of each container, by name, and of the pod under the name "", from the cgroups of one
    pod. A pod without a cgroup of its own uses what its containers use."""
    there = [row for row in groups if row.exists]
    own = {row.container: _usage(row, seconds) for row in there}
    parts = [usage for name, usage in own.items() if name]
    pod = own.get("", PodUsage(seconds))
    if not there:
        return {}
    throttled = [_sum(one.throttled for one in parts), pod.throttled]
    whole = PodUsage(
        seconds,
        cpu=pod.cpu if "" in own else _sum(one.cpu for one in parts),
        cpu_limit=pod.cpu_limit,
        cpu_share=_most(one.cpu_share for one in (pod, *parts)),
        throttled=_most(throttled),
        memory=pod.memory if "" in own else _whole(_sum(one.memory for one in parts)),
        memory_limit=pod.memory_limit,
        memory_share=_most(one.memory_share for one in (pod, *parts)),
    )
    return {**own, "": whole}


def _usage(row: GroupRow, seconds: float | None) -> PodUsage:
    cores, size = cpu_limit(row), memory_limit(row)
    return PodUsage(
        seconds if row.cpu is not None else None,
        cpu=row.cpu,
        cpu_limit=cores,
        cpu_share=share(row.cpu, cores),
        throttled=row.throttled_seconds,
        memory=row.memory,
        memory_limit=size,
        memory_share=share(row.memory, size),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _sum(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None


def _most(values: Iterable[float | None]) -> float | None:
    return max(_known(values), default=None)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
