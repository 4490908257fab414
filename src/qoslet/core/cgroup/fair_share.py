"""What values are worth under their ancestors: the CPU that contending groups get.

Weights share what is there among siblings that want it, level by level; a quota caps a group
and leaves the rest to its siblings (max-min fairness by weight). Source: sched-design-CFS,
Documentation/scheduler/sched-bwc.rst, cgroup-v2 "CPU".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Contender(Struct, frozen=True):
    """A group that competes for CPU. ``weight`` is shares (v1) or weight (v2), in whatever
    unit its siblings use; ``cap`` is its quota in cores, None without one; ``demand`` what the
    processes of a group without children would use, in cores."""

    path: str
    weight: float
    cap: float | None = None
    demand: float = 0.0
    children: tuple[Contender, ...] = ()


def fair_shares(groups: Sequence[Contender], cores: float) -> Mapping[str, float]:
    """Cores that each group gets, by path, when ``cores`` are there for ``groups``."""
    shares: dict[str, float] = {}
    for group, given in zip(groups, _fill(groups, cores), strict=True):
        shares[group.path] = given
        shares.update(fair_shares(group.children, given))
    return shares


def wanted(group: Contender) -> float:
    """The most that a group can use, in cores: its demand or its children's, under its cap."""
    total = group.demand + sum(wanted(child) for child in group.children)
    return total if group.cap is None else min(total, group.cap)


def _fill(groups: Sequence[Contender], cores: float) -> list[float]:
    """Share ``cores`` by weight; what one cannot use goes to the others."""
    most = [wanted(group) for group in groups]
    given = [0.0] * len(groups)
    open_ = [index for index, amount in enumerate(most) if amount > 0]
    left = min(cores, sum(most))
    while open_ and left > 1e-9:
        weight = sum(groups[index].weight for index in open_)
        level = left / weight if weight else 0.0
        full = [index for index in open_ if most[index] <= level * groups[index].weight + 1e-12]
        if not full:
            for index in open_:
                given[index] = level * groups[index].weight
            break
        for index in full:
            given[index] = most[index]
            left -= most[index]
        open_ = [index for index in open_ if index not in full]
    return given


def weight_of(files: Mapping[str, str]) -> float:
    """``cpu.shares`` (v1) or ``cpu.weight`` (v2) of a group; the kernel's default without."""
    for file, default in (("cpu.shares", 1024.0), ("cpu.weight", 100.0)):
        text = files.get(file)
        if text is not None:
            return float(text) if text.isdigit() else default
    return 1024.0


def cap_of(files: Mapping[str, str]) -> float | None:
    """The CPU quota of a group in cores; None without one."""
    if "cpu.max" in files:
        quota, _, period = files["cpu.max"].partition(" ")
    else:
        quota, period = files.get("cpu.cfs_quota_us", ""), files.get("cpu.cfs_period_us", "")
    period = period or "100000"
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)
