"""The CPU that contending cgroups get.

Weights share a level's CPU among the siblings that use it. A quota caps a cgroup and leaves the
rest to its siblings (max-min fairness by weight). Source: sched-design-CFS,
Documentation/scheduler/sched-bwc.rst, cgroup-v2 "CPU".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Contender(Struct, frozen=True):
    """A cgroup that competes for CPU. ``weight`` is in the unit of its siblings: shares (v1) or
    weight (v2). ``cap`` is its quota in cores, None without one. ``demand`` is what the processes
    of a cgroup without children would use, in cores."""

    path: str
    weight: float
    cap: float | None = None
    demand: float = 0.0
    children: tuple[Contender, ...] = ()


def fair_shares(contenders: Sequence[Contender], cores: float) -> Mapping[str, float]:
    """The cores that each cgroup gets, by path, if ``cores`` are shared by ``contenders``."""
    shares: dict[str, float] = {}
    for contender, cores_given in zip(contenders, _fill(contenders, cores), strict=True):
        shares[contender.path] = cores_given
        shares.update(fair_shares(contender.children, cores_given))
    return shares


def wanted(contender: Contender) -> float:
    """The most that a cgroup can use, in cores: its demand or its children's, under its cap."""
    total = contender.demand + sum(wanted(child) for child in contender.children)
    return total if contender.cap is None else min(total, contender.cap)


def _fill(contenders: Sequence[Contender], cores: float) -> list[float]:
    """Shares ``cores`` by weight; what one contender cannot use goes to the others."""
    most = [wanted(contender) for contender in contenders]
    given = [0.0] * len(contenders)
    unsatisfied = [index for index, amount in enumerate(most) if amount > 0]
    remaining = min(cores, sum(most))
    while unsatisfied and remaining > 1e-9:
        weight = sum(contenders[index].weight for index in unsatisfied)
        level = remaining / weight if weight else 0.0
        satisfied = [
            index
            for index in unsatisfied
            if most[index] <= level * contenders[index].weight + 1e-12
        ]
        if not satisfied:
            for index in unsatisfied:
                given[index] = level * contenders[index].weight
            break
        for index in satisfied:
            given[index] = most[index]
            remaining -= most[index]
        unsatisfied = [index for index in unsatisfied if index not in satisfied]
    return given


def weight_of(files: Mapping[str, str]) -> float:
    """``cpu.shares`` (v1) or ``cpu.weight`` (v2) of a cgroup; the kernel's default without."""
    for file, default in (("cpu.shares", 1024.0), ("cpu.weight", 100.0)):
        text = files.get(file)
        if text is not None:
            return float(text) if text.isdigit() else default
    return 1024.0


def cap_of(files: Mapping[str, str]) -> float | None:
    """The CPU quota of a cgroup in cores; None without one."""
    if "cpu.max" in files:
        quota, _, period = files["cpu.max"].partition(" ")
    else:
        quota, period = files.get("cpu.cfs_quota_us", ""), files.get("cpu.cfs_period_us", "")
    period = period or "100000"
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)
