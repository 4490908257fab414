"""The status of the agent beside a kubelet as Prometheus metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from qoslet.core.guest.monitoring import GUEST_METRICS

if TYPE_CHECKING:
    from prometheus_client import Metric

    from qoslet.core.guest.status import GuestStatus

MEDIA = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[tuple[str, ...], float]


def _findings(status: GuestStatus) -> Iterator[Sample]:
    counted = Counter((one.verdict, one.severity) for one in status.findings)
    yield from sorted(counted.items())


def _guard_decisions(status: GuestStatus) -> Iterator[Sample]:
    for key, count in status.guard.counts.items():
        mode, _, answer = key.partition("/")
        yield (mode, answer), count


def _one(read: Callable[[GuestStatus], float]) -> Callable[[GuestStatus], Iterable[Sample]]:
    return lambda status: [((), read(status))]


SAMPLES: Mapping[str, Callable[[GuestStatus], Iterable[Sample]]] = {
    "info": lambda one: [((one.policy.mode, one.memory_qos), 1)],
    "pods": _one(lambda one: one.pods),
    "source_complete": lambda one: [((one.source.name,), one.source.complete)],
    "source_age_seconds": lambda one: [((one.source.name,), one.source.age_seconds)],
    "source_requests": _one(lambda one: one.source.requests),
    "findings": _findings,
    "compared_values": _one(lambda one: one.compared),
    "held_files": _one(lambda one: len(one.held)),
    "contested_files": _one(lambda one: len(one.contested)),
    "errors": _one(lambda one: len(one.errors)),
    "guard_overrides": _one(lambda one: len(one.guard.held)),
    "syncs": _one(lambda one: one.syncs),
    "writes": _one(lambda one: one.writes),
    "rewrites": _one(lambda one: one.rewrites),
    "resets": _one(lambda one: one.resets),
    "write_failures": _one(lambda one: one.failures),
    "guard_decisions": _guard_decisions,
}
"""How the samples of each metric are read."""


class _Collector:
    """One status, as the client library asks for it."""

    def __init__(self, status: GuestStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Every metric of the status."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, row in GUEST_METRICS.items():
            family = CounterMetricFamily if row.counter else GaugeMetricFamily
            metric = family(row.name, row.help, labels=row.labels)
            for labels, value in SAMPLES[name](self._status):
                metric.add_metric(labels, value)
            yield metric


def guest_exposition(status: GuestStatus) -> bytes:
    """The status in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(status))
    return generate_latest(registry)
