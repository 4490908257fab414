"""The status of the agent beside a kubelet as Prometheus metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.status.fields import Metric as MetricRow

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


class GuestMetric(Struct, frozen=True):
    """A metric, and how its samples are read."""

    row: MetricRow
    read: Callable[[GuestStatus], Iterable[Sample]]


def _row(name: str, help: str, *labels: str, counter: bool = False) -> MetricRow:
    return MetricRow(f"qoslet_agent_{name}", help, labels, counter)


METRICS = (
    GuestMetric(
        _row("info", "The agent: its mode and its variant of Memory QoS.", "mode", "memory_qos"),
        lambda one: [((one.policy.mode, one.memory_qos), 1)],
    ),
    GuestMetric(_row("pods", "Pods of the node."), _one(lambda one: one.pods)),
    GuestMetric(
        _row("source_complete", "Whether the source of pods has all of them.", "source"),
        lambda one: [((one.source.name,), one.source.complete)],
    ),
    GuestMetric(
        _row("source_age_seconds", "Time since the source of pods answered last.", "source"),
        lambda one: [((one.source.name,), one.source.age_seconds)],
    ),
    GuestMetric(_row("findings", "Findings of the last audit.", "verdict", "severity"), _findings),
    GuestMetric(
        _row("compared_values", "Values that the last audit compared."),
        _one(lambda one: one.compared),
    ),
    GuestMetric(
        _row("held_files", "Files that hold a value of the agent's."),
        _one(lambda one: len(one.held)),
    ),
    GuestMetric(
        _row("contested_files", "Files that another process resets."),
        _one(lambda one: len(one.contested)),
    ),
    GuestMetric(
        _row("errors", "What is wrong now: sources, writes, audits."),
        _one(lambda one: len(one.errors)),
    ),
    GuestMetric(
        _row("guard_overrides", "Cgroups whose memory.high the guard has changed."),
        _one(lambda one: len(one.guard.held)),
    ),
    GuestMetric(_row("syncs", "Syncs since the start.", counter=True), _one(lambda one: one.syncs)),
    GuestMetric(
        _row("writes", "Values written since the start.", counter=True),
        _one(lambda one: one.writes),
    ),
    GuestMetric(
        _row("rewrites", "Values written again after another process reset them.", counter=True),
        _one(lambda one: one.rewrites),
    ),
    GuestMetric(
        _row("resets", "Values that another process reset.", counter=True),
        _one(lambda one: one.resets),
    ),
    GuestMetric(
        _row("write_failures", "Writes that the kernel or systemd refused.", counter=True),
        _one(lambda one: one.failures),
    ),
    GuestMetric(
        _row("guard_decisions", "Decisions of the guard.", "mode", "answer", counter=True),
        _guard_decisions,
    ),
)


class _Collector:
    """One status, as the client library asks for it."""

    def __init__(self, status: GuestStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Every metric of the status."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for one in METRICS:
            family = CounterMetricFamily if one.row.counter else GaugeMetricFamily
            metric = family(one.row.name, one.row.help, labels=one.row.labels)
            for labels, value in one.read(self._status):
                metric.add_metric(labels, value)
            yield metric


def guest_exposition(status: GuestStatus) -> bytes:
    """The status in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(status))
    return generate_latest(registry)
