"""What a run shows at its end: asked, written and got, for every container.

The CPU that each container should have had follows from the written weights and quotas and from
how many of its threads wanted to run (``fair_share.fair_shares``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from qoslet.core.cgroup.usage.fair_share import Contender, cap_of, fair_shares, weight_of
from qoslet.core.status.snapshot import GroupRow, Snapshot

TOLERANCE = 5.0
"""Points of the machine's CPU by which got and expected may differ."""


class ReceivedResources(Struct, frozen=True):
    """A container over the whole run. CPU is in percent of the machine, ``throttled`` in
    seconds; None means unknown."""

    row: GroupRow
    cpu: float | None = None
    expected: float | None = None
    throttled: float | None = None

    @property
    def fair(self) -> bool | None:
        """Whether the CPU is within ``TOLERANCE`` of what was expected."""
        if self.cpu is None or self.expected is None:
            return None
        return abs(self.cpu - self.expected) <= TOLERANCE


class Report(Struct, frozen=True):
    """``seconds`` were measured; ``containers`` stand by class, then as planned.
    ``elsewhere`` is the percentage of the machine that others used."""

    seconds: float
    cores: float
    containers: tuple[ReceivedResources, ...]
    elsewhere: float = 0.0

    @property
    def fair(self) -> bool:
        """Whether no container is off."""
        return all(got.fair is not False for got in self.containers)


def report(snapshots: Sequence[Snapshot]) -> Report:
    """The report on a run, from its snapshots in order.

    Measured from the first snapshot in which containers ran. Groups that were replaced on the
    way are unknown.
    """
    if not snapshots:
        return Report(0.0, 1.0, ())
    first = next((one for one in snapshots if _busy(one)), snapshots[0])
    last = snapshots[-1]
    seconds = last.at - first.at
    expected = _expected([one for one in snapshots if one.at >= first.at])
    before = {row.path: row for row in first.groups}
    containers = tuple(
        _got(row, before.get(row.path), expected.get(row.path), seconds, last.cores)
        for row in sorted(last.groups, key=lambda row: _RANK.get(row.qos, 3))
        if row.level == "container"
    )
    others = 100 * _elsewhere(first, last) / last.cores
    return Report(seconds, last.cores, containers, others)


def _busy(snapshot: Snapshot) -> bool:
    """Whether a container runs."""
    return any(row.state == "running" for row in snapshot.groups)


_RANK = {"Guaranteed": 0, "Burstable": 1, "BestEffort": 2}


def _expected(snapshots: Sequence[Snapshot]) -> dict[str, float]:
    """Cores that each group should have had on average: each snapshot stands for the time
    since the one before it."""
    total: dict[str, float] = {}
    lasted = 0.0
    for before, snapshot in pairwise(snapshots):
        seconds = snapshot.at - before.at
        lasted += seconds
        demand = {row.path: float(row.runnable or 0) for row in snapshot.groups}
        there = max(snapshot.cores - _elsewhere(before, snapshot), 0.0)
        for path, cores in fair_shares(contenders(snapshot, demand), there).items():
            total[path] = total.get(path, 0.0) + cores * seconds
    return {path: amount / lasted for path, amount in total.items()} if lasted else {}


def _elsewhere(before: Snapshot, after: Snapshot) -> float:
    """Cores that were used outside the tree between two snapshots; 0 where unknown."""
    seconds = after.at - before.at
    if before.busy_seconds is None or after.busy_seconds is None or seconds <= 0:
        return 0.0
    ours = _top_seconds(after) - _top_seconds(before)
    return max(after.busy_seconds - before.busy_seconds - ours, 0.0) / seconds


def _top_seconds(snapshot: Snapshot) -> float:
    """CPU seconds of the tree: of the groups without a parent in it."""
    paths = {row.path for row in snapshot.groups}
    return sum(
        row.cpu_seconds or 0.0
        for row in snapshot.groups
        if row.path.rpartition("/")[0] not in paths
    )


def _got(
    row: GroupRow, before: GroupRow | None, expected: float | None, seconds: float, cores: float
) -> ReceivedResources:
    """One container's CPU over the time measured."""
    if before is None or before.identity != row.identity or seconds <= 0:
        return ReceivedResources(row)
    cpu = _less(row.cpu_seconds, before.cpu_seconds)
    return ReceivedResources(
        row=row,
        cpu=None if cpu is None else 100 * cpu / seconds / cores,
        expected=None if expected is None else 100 * expected / cores,
        throttled=_less(row.throttled_seconds, before.throttled_seconds),
    )


def _less(after: float | None, before: float | None) -> float | None:
    """The difference of two counters, where both are known."""
    return None if after is None or before is None else after - before


def contenders(snapshot: Snapshot, demand: Mapping[str, float]) -> list[Contender]:
    """The groups as competitors for the CPU, from what was found in their files."""
    below: dict[str, list[GroupRow]] = {}
    paths = {row.path for row in snapshot.groups}
    for row in snapshot.groups:
        parent = row.path.rpartition("/")[0]
        below.setdefault(parent if parent in paths else "", []).append(row)

    def build(row: GroupRow) -> Contender:
        files = {**row.planned, **row.found}
        return Contender(
            path=row.path,
            weight=weight_of(files),
            cap=cap_of(files),
            demand=demand.get(row.path, 0.0),
            children=tuple(build(child) for child in below.get(row.path, ())),
        )

    return [build(row) for row in below.get("", ())]
