"""Snapshots as Prometheus metrics. One row a metric; the names of a kubelet's where it has one.

Source: kubelet metrics CgroupManagerOperationsKey; container metrics of the CRI stats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from qoslet.core.workload.pod_status import BOUNDS

if TYPE_CHECKING:
    from prometheus_client import Metric

    from qoslet.core.memory.rows import MemoryRow
    from qoslet.core.status.snapshot import GroupRow, Snapshot
    from qoslet.core.workload.pod_status import Meter

MEDIA = "text/plain; version=0.0.4; charset=utf-8"

_POD = ("namespace", "pod", "uid")
_GROUP = ("level", "pod", "container", "cgroup")
Sample = tuple[tuple[str, ...], float]


def _labels(row: GroupRow) -> tuple[str, ...]:
    return row.level, row.pod, row.container, row.path


def _per_group(read: Callable[[GroupRow], float | None]) -> Callable[[Snapshot], Iterator[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for row in snapshot.groups:
            value = read(row) if row.exists else None
            if value is not None:
                yield _labels(row), value

    return samples


def _phases(snapshot: Snapshot) -> Iterator[Sample]:
    counted = Counter(row.phase for row in snapshot.pods)
    for phase in ("Pending", "Running", "Succeeded", "Failed", "Terminating"):
        yield (phase,), counted[phase]


def _states(snapshot: Snapshot) -> Iterator[Sample]:
    for row in snapshot.pods:
        yield (row.namespace, row.name, row.uid, row.phase, row.reason, row.resize), 1


def _restarts(snapshot: Snapshot) -> Iterator[Sample]:
    for row in snapshot.pods:
        for state in row.containers:
            yield (row.namespace, row.name, row.uid, state.name), state.restarts


def _retries(snapshot: Snapshot) -> Iterator[Sample]:
    for row in snapshot.pods:
        yield (row.namespace, row.name, row.uid), row.retries


def _memory(
    read: Callable[[MemoryRow], Iterable[tuple[tuple[str, ...], float]]],
) -> Callable[[Snapshot], Iterator[Sample]]:
    """Of each group whose memory is followed, those that are gone, too."""

    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for row in snapshot.memory_view.groups:
            for more, value in read(row):
                yield (row.level, row.pod, row.container, row.path, *more), value

    return samples


def _reclaim(row: MemoryRow) -> Iterator[tuple[tuple[str, ...], float]]:
    for zone, one in row.reclaimed.items():
        yield (zone, "scanned"), one.scanned
        yield (zone, "taken"), one.taken
        yield (zone, "refaulted"), one.refaulted


def _protected(row: MemoryRow) -> Iterator[tuple[tuple[str, ...], float]]:
    if not row.gone:
        yield ("low",), row.low
        yield ("min",), row.min


def _claimed(row: MemoryRow) -> Iterator[tuple[tuple[str, ...], float]]:
    """Without groups that claim nothing, which are most."""
    for kind, value in (("low", row.given_low), ("min", row.given_min)):
        if value and not row.gone:
            yield (kind,), value


def _room(row: MemoryRow) -> Iterator[tuple[tuple[str, ...], float]]:
    if row.binds is not None and not row.gone:
        yield (), row.binds.room


def _node_pressure(snapshot: Snapshot) -> Iterator[Sample]:
    node = snapshot.memory_view.node
    if node is not None and node.pressure is not None:
        yield ("some",), node.pressure.some_total / 1e6
        yield ("full",), node.pressure.full_total / 1e6


def _guard_decisions(snapshot: Snapshot) -> Iterator[Sample]:
    """How often the guard decided what, by mode and answer."""
    for key, count in snapshot.memory_view.guard.counts.items():
        mode, _, answer = key.partition("/")
        yield (mode, answer), count


def _guard_overrides(snapshot: Snapshot) -> Iterator[Sample]:
    """How many groups have another memory.high than planned."""
    yield (), len(snapshot.memory_view.guard.held)


def _pressure_verdicts(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], float]]:
    """How often what was decided."""
    for verdict, count in snapshot.memory_view.pressure.counts.items():
        yield (verdict,), count


def _one(read: Callable[[Snapshot], float]) -> Callable[[Snapshot], Iterator[Sample]]:
    return lambda snapshot: iter([((), read(snapshot))])


GAUGES: tuple[tuple[str, str, tuple[str, ...], Callable[[Snapshot], Iterable[Sample]]], ...] = (
    ("qoslet_pods", "Pods by phase.", ("phase",), _phases),
    ("qoslet_pod_state", "1 for the state that a pod is in.",
     (*_POD, "phase", "reason", "resize"), _states),
    ("qoslet_pod_retries", "Attempts at a pod that failed in a row.", _POD, _retries),
    ("qoslet_differences", "Differences between plan and kernel that the last turn found.", (),
     _one(lambda one: one.differences)),
    ("qoslet_writes_pending", "Writes that go on in the kernel.", (),
     _one(lambda one: len(one.pending))),
    ("qoslet_limits_waiting", "Limits that usage holds above the plan.", (),
     _one(lambda one: len(one.waiting))),
    ("qoslet_memory_usage_bytes", "Memory of a group.", _GROUP, _per_group(lambda g: g.memory)),
    ("qoslet_memory_peak_bytes", "Most memory that a group had.", _GROUP,
     _per_group(lambda g: g.memory_peak)),
    ("qoslet_memory_protected_bytes", "Memory of a group that is protected at most, by kind.",
     (*_GROUP, "kind"), _memory(_protected)),
    ("qoslet_memory_claimed_bytes", "Memory of a group that its memory.low or memory.min claims.",
     (*_GROUP, "kind"), _memory(_claimed)),
    ("qoslet_memory_room_bytes", "Memory that a group may still use before a limit binds.", _GROUP,
     _memory(_room)),
    ("qoslet_guard_held", "Groups whose memory.high the guard has raised or lifted.", (),
     _guard_overrides),
)  # fmt: skip
"""Name, help, labels, samples."""

COUNTERS: tuple[tuple[str, str, tuple[str, ...], Callable[[Snapshot], Iterable[Sample]]], ...] = (
    ("qoslet_cycles", "Turns of the loop.", (), _one(lambda one: one.cycle)),
    ("qoslet_guard_decisions", "What the guard did, or would have done (mode observe).",
     ("mode", "answer"), _guard_decisions),
    ("qoslet_memory_pressure_decisions", "What was decided where memory was short.", ("verdict",),
     _pressure_verdicts),
    ("qoslet_container_restarts", "Starts of a container after its first.",
     (*_POD, "container"), _restarts),
    ("qoslet_cpu_usage_seconds", "CPU time of a group.", _GROUP,
     _per_group(lambda g: g.cpu_seconds)),
    ("qoslet_cpu_throttled_seconds", "Time that a group was throttled.", _GROUP,
     _per_group(lambda g: g.throttled_seconds)),
    ("qoslet_oom_kills", "Processes that the kernel killed for memory in a group.", _GROUP,
     _per_group(lambda g: g.oom_kills)),
    ("qoslet_memory_events", "What happened to the memory of a group, over its restarts.",
     (*_GROUP, "event"),
     _memory(lambda row: (((kind,), count) for kind, count in row.events.items()))),
    ("qoslet_memory_reclaim_pages", "Pages of a group in reclaim, by where its usage was.",
     (*_GROUP, "zone", "what"), _memory(_reclaim)),
    ("qoslet_memory_stalled_seconds", "Time in which all processes of a group waited for memory.",
     _GROUP, _memory(lambda row: [((), row.stalled)])),
    ("qoslet_memory_waiting_seconds", "Time in which some process of a group waited for memory.",
     _GROUP, _memory(lambda row: [((), row.waited)])),
    ("qoslet_memory_pressure_seconds", "Time in which processes of the machine waited for memory.",
     ("kind",), _node_pressure),
)  # fmt: skip
"""The same; ``_total`` is added."""

MANAGER = "qoslet_cgroup_manager_duration_seconds"
FAILURES = "qoslet_cgroup_manager_failures"


class _Collector:
    """One snapshot, as the client library asks for it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Every metric of the snapshot."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        for rows, family in ((GAUGES, GaugeMetricFamily), (COUNTERS, CounterMetricFamily)):
            for name, help, labels, samples in rows:
                metric = family(name, help, labels=labels)
                for values, number in samples(self._snapshot):
                    metric.add_metric(values, number)
                yield metric
        duration = HistogramMetricFamily(
            MANAGER, "Work on a group, by what was done.", labels=["operation_type"]
        )
        failed = CounterMetricFamily(
            FAILURES, "Work on a group that failed.", labels=["operation_type"]
        )
        for kind in ("create", "update", "destroy"):
            meter = self._snapshot.meters.get(kind)
            if meter is not None:
                duration.add_metric([kind], _buckets(meter), meter.seconds)
            failed.add_metric([kind], meter.failures if meter is not None else 0)
        yield duration
        yield failed


def _buckets(meter: Meter) -> list[tuple[str, float]]:
    """Bound to how many took no longer."""
    total, found = 0, []
    for bound, count in zip((*BOUNDS, None), meter.buckets, strict=True):
        total += count
        found.append(("+Inf" if bound is None else repr(bound), float(total)))
    return found


def exposition(snapshot: Snapshot) -> bytes:
    """The snapshot in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot))
    return generate_latest(registry)
