"""Snapshots as Prometheus metrics. Names and help texts are rows of ``status.fields``.

Source: kubelet metrics CgroupManagerOperationsKey; container metrics of the CRI stats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from qoslet.core.status.fields import FIELDS, LEFT_OUT, WORK, WORK_FAILED
from qoslet.core.status.meter import BOUNDS
from qoslet.core.status.series import (
    KUBELET_LABELS,
    MetricsOptions,
    Sample,
    kubelet_labels,
    within,
)

if TYPE_CHECKING:
    from prometheus_client import Metric

    from qoslet.core.memory.rows import MemoryRow
    from qoslet.core.status.fields import Metric as MetricRow
    from qoslet.core.status.meter import Meter
    from qoslet.core.status.snapshot import GroupRow, Snapshot

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


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
    if row.tells_protection and not row.gone:
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


def _guard_not_freed(snapshot: Snapshot) -> Iterator[Sample]:
    """The longest time for which reclaim freed nothing of a watched group."""
    yield (), max((one.not_freed or 0.0 for one in snapshot.memory_view.watched), default=0.0)


def _pressure_verdicts(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], float]]:
    """How often what was decided."""
    for verdict, count in snapshot.memory_view.pressure.counts.items():
        yield (verdict,), count


def _one(read: Callable[[Snapshot], float]) -> Callable[[Snapshot], Iterator[Sample]]:
    return lambda snapshot: iter([((), read(snapshot))])


SAMPLES: Mapping[str, Callable[[Snapshot], Iterable[Sample]]] = {
    "pod_phase": _phases,
    "pod_reason": _states,
    "pod_retries": _retries,
    "cycle": _one(lambda one: one.cycle),
    "differences": _one(lambda one: one.differences),
    "pending": _one(lambda one: len(one.pending)),
    "waiting": _one(lambda one: len(one.waiting)),
    "memory": _per_group(lambda g: g.memory),
    "memory_peak": _per_group(lambda g: g.memory_peak),
    "memory_protected": _memory(_protected),
    "memory_claimed": _memory(_claimed),
    "memory_room": _memory(_room),
    "guard_overrides": _guard_overrides,
    "guard_not_freed": _guard_not_freed,
    "guard_decisions": _guard_decisions,
    "pressure_decisions": _pressure_verdicts,
    "container_restarts": _restarts,
    "cpu": _per_group(lambda g: g.cpu_seconds),
    "cpu_throttled": _per_group(lambda g: g.throttled_seconds),
    "oom_kills": _per_group(lambda g: g.oom_kills),
    "memory_events": _memory(lambda row: (((kind,), n) for kind, n in row.events.items())),
    "memory_reclaim": _memory(_reclaim),
    "memory_stalled": _memory(lambda row: [((), row.stalled)] if row.tells_pressure else []),
    "memory_waiting": _memory(lambda row: [((), row.waited)] if row.tells_pressure else []),
    "node_pressure": _node_pressure,
}
"""How the samples of each field that has a metric are read."""


class _Collector:
    """One snapshot, as the client library asks for it."""

    def __init__(self, snapshot: Snapshot, options: MetricsOptions) -> None:
        self._snapshot = snapshot
        self._options = options

    def collect(self) -> Iterator[Metric]:
        """Every metric of the snapshot."""
        rows = [(one.metric, SAMPLES[one.name]) for one in FIELDS if one.metric is not None]
        rows.sort(key=lambda row: row[0].counter)
        every = {metric: list(read(self._snapshot)) for metric, read in rows}
        kept, left = within(every, self._options.most)
        for row, samples in kept.items():
            yield _family(row.name, row.help, row.labels, row.counter, samples)
        yield _family(
            LEFT_OUT.name,
            LEFT_OUT.help,
            LEFT_OUT.labels,
            LEFT_OUT.counter,
            [((level,), count) for level, count in left.items()],
        )
        if self._options.kubelet_names:
            yield from _of_kubelet(kept)
        yield from self._work()

    def _work(self) -> Iterator[Metric]:
        """What the agent did with cgroups."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        duration = HistogramMetricFamily(WORK.name, WORK.help, labels=WORK.labels)
        failed = CounterMetricFamily(WORK_FAILED.name, WORK_FAILED.help, labels=WORK_FAILED.labels)
        for kind in ("create", "update", "destroy"):
            meter = self._snapshot.meters.get(kind)
            if meter is not None:
                duration.add_metric([kind], _buckets(meter), meter.seconds)
            failed.add_metric([kind], meter.failures if meter is not None else 0)
        yield duration
        yield failed


def _family(
    name: str, help: str, labels: Sequence[str], counter: bool, samples: Iterable[Sample]
) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if counter else GaugeMetricFamily
    metric = kind(name, help, labels=labels)
    for values, number in samples:
        metric.add_metric(values, number)
    return metric


def _of_kubelet(kept: Mapping[MetricRow, Sequence[Sample]]) -> Iterator[Metric]:
    """What a kubelet has, too, by its names."""
    for row, samples in kept.items():
        if row.kubelet:
            named = [(kubelet_labels(row.labels, values), number) for values, number in samples]
            yield _family(row.kubelet, row.help, KUBELET_LABELS, row.counter, named)


def _buckets(meter: Meter) -> list[tuple[str, float]]:
    """Bound to how many took no longer."""
    total, found = 0, []
    for bound, count in zip((*BOUNDS, None), meter.buckets, strict=True):
        total += count
        found.append(("+Inf" if bound is None else repr(bound), float(total)))
    return found


def exposition(snapshot: Snapshot, options: MetricsOptions | None = None) -> bytes:
    """The snapshot in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot, options or MetricsOptions()))
    return generate_latest(registry)
