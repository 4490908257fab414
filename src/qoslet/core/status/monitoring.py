"""What to watch of the metrics: panels of a dashboard and alerts, in terms of the shown fields.

A query names a metric by its field, ``{memory}``, so a field that is renamed or goes breaks here, not
on a screen at night. Source: Prometheus alerting and recording rules; Grafana dashboard JSON model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from qoslet.core.status.fields import BY_NAME, Metric

Unit = Literal["short", "bytes", "s", "percentunit", "cores"]
Severity = Literal["critical", "warning"]


class Query(Struct, frozen=True):
    """A PromQL expression with fields in braces, and how its series are called."""

    expression: str
    legend: str


class Panel(Struct, frozen=True):
    """A graph of a dashboard. ``about`` says what a reader sees in it."""

    title: str
    about: str
    unit: Unit
    queries: tuple[Query, ...]


class Alert(Struct, frozen=True):
    """A rule that fires while ``expression`` has held for ``lasting``. ``about`` says what to do."""

    name: str
    expression: str
    lasting: str
    severity: Severity
    summary: str
    about: str


_CONTAINER = '{{level="container"}}'
_LEGEND = "{{pod}}/{{container}}"

PANELS: tuple[Panel, ...] = (
    Panel(
        "CPU",
        "CPUs that each container uses.",
        "cores",
        (Query(f"rate({{cpu}}{_CONTAINER}[$__rate_interval])", _LEGEND),),
    ),
    Panel(
        "Throttled",
        "Part of the time in which a CPU limit held a container up.",
        "percentunit",
        (Query(f"rate({{cpu_throttled}}{_CONTAINER}[$__rate_interval])", _LEGEND),),
    ),
    Panel(
        "Memory",
        "Memory of each container, page cache included.",
        "bytes",
        (Query(f"{{memory}}{_CONTAINER}", _LEGEND),),
    ),
    Panel(
        "Room before a limit",
        "Memory that a container may still use before memory.high or a limit above it binds.",
        "bytes",
        (Query(f"{{memory_room}}{_CONTAINER}", _LEGEND),),
    ),
    Panel(
        "Waiting for memory",
        "Part of the time in which some task waits for reclaim: near 1 a container hardly gets on.",
        "percentunit",
        (
            Query(f"rate({{memory_waiting}}{_CONTAINER}[$__rate_interval])", f"{_LEGEND} some"),
            Query(f"rate({{memory_stalled}}{_CONTAINER}[$__rate_interval])", f"{_LEGEND} all"),
        ),
    ),
    Panel(
        "Memory events",
        "high: throttled at memory.high; max: at the limit; oom_kill: ended by the kernel.",
        "short",
        (
            Query(
                "sum by (pod, container, event) (increase({memory_events}"
                '{{event=~"high|max|oom_kill"}}[$__rate_interval]))',
                f"{_LEGEND} {{{{event}}}}",
            ),
        ),
    ),
    Panel(
        "Guard",
        "What the guard decided, by mode and answer, and cgroups whose memory.high it holds up.",
        "short",
        (
            Query(
                "sum by (mode, answer) (increase({guard_decisions}[$__rate_interval]))",
                "{{mode}} {{answer}}",
            ),
            Query("{guard_overrides}", "held"),
        ),
    ),
    Panel(
        "Nothing freed",
        "Longest time for which nothing was freed of a cgroup that stands at memory.high.",
        "s",
        (Query("{guard_not_freed}", "{{instance}}"),),
    ),
    Panel(
        "Node pressure",
        "Part of the time in which tasks of the machine wait for memory.",
        "percentunit",
        (Query("rate({node_pressure}[$__rate_interval])", "{{instance}} {{kind}}"),),
    ),
    Panel(
        "Pods",
        "Pods by phase.",
        "short",
        (Query("sum by (phase) ({pod_phase})", "{{phase}}"),),
    ),
    Panel(
        "Restarts",
        "Starts of containers after their first.",
        "short",
        (
            Query(
                "sum by (namespace, pod, container) "
                "(increase({container_restarts}[$__rate_interval]))",
                "{{namespace}}/{{pod}}/{{container}}",
            ),
        ),
    ),
    Panel(
        "Tree",
        "Differences between plan and kernel, limits that usage holds above the plan, writes under way.",
        "short",
        (
            Query("{differences}", "{{instance}} differences"),
            Query("{waiting}", "{{instance}} waiting limits"),
            Query("{pending}", "{{instance}} pending writes"),
        ),
    ),
)

ALERTS: tuple[Alert, ...] = (
    Alert(
        "QosletCgroupsDiffer",
        "{differences} > 0",
        "5m",
        "warning",
        "cgroups on {{ $labels.instance }} are not as planned",
        "Something writes the same files, or a write fails: qoslet ps and the agent's log name them.",
    ),
    Alert(
        "QosletAgentStopped",
        "rate({cycle}[10m]) == 0",
        "5m",
        "critical",
        "the agent on {{ $labels.instance }} has stopped looking",
        "Nothing guards the pods: look at the unit's log, restart it; containers keep running.",
    ),
    Alert(
        "QosletStalledAtMemoryHigh",
        "{guard_not_freed} > 15",
        "0m",
        "critical",
        "a cgroup on {{ $labels.instance }} stands at memory.high and nothing is freed",
        "With --guard act the guard answers within seconds; with observe or off raise memory.high.",
    ),
    Alert(
        "QosletContainerWaitsForMemory",
        'rate({memory_stalled}{{level="container"}}[5m]) > 0.5',
        "5m",
        "warning",
        "all tasks of {{ $labels.pod }}/{{ $labels.container }} wait for memory half of the time",
        "Its working set does not fit: raise its memory limit or request.",
    ),
    Alert(
        "QosletContainerThrottled",
        'rate({cpu_throttled}{{level="container"}}[15m]) > 0.25',
        "15m",
        "warning",
        "{{ $labels.pod }}/{{ $labels.container }} is throttled by its CPU limit",
        "Raise or remove the CPU limit; the request keeps its share.",
    ),
    Alert(
        "QosletOomKills",
        'increase({oom_kills}{{level="container"}}[10m]) > 0',
        "0m",
        "warning",
        "the kernel killed a process of {{ $labels.pod }}/{{ $labels.container }} for memory",
        "qoslet ps says which container; qoslet explain says where its limit comes from.",
    ),
    Alert(
        "QosletNodeShortOfMemory",
        "rate({node_pressure}[5m]) > 0.2",
        "5m",
        "warning",
        "tasks on {{ $labels.instance }} wait for memory a fifth of the time",
        "qoslet top --sort memory shows who uses most above its request.",
    ),
    Alert(
        "QosletPodKeepsFailing",
        "{pod_retries} > 5",
        "10m",
        "warning",
        "{{ $labels.namespace }}/{{ $labels.pod }} keeps failing",
        "qoslet ps and qoslet logs say why.",
    ),
    Alert(
        "QosletLimitsWait",
        "{waiting} > 0",
        "30m",
        "warning",
        "limits on {{ $labels.instance }} wait for usage to fall",
        "Usage is above the new limit: the container has to be restarted, or the limit raised.",
    ),
)


def metric_name(field: str) -> str:
    """The series that a field's metric has. Raises KeyError for a field without one."""
    metric = BY_NAME[field].metric
    if metric is None:
        raise KeyError(field)
    return series_name(metric)


def series_name(metric: Metric) -> str:
    """The series of a metric."""
    return f"{metric.name}_total" if metric.counter else metric.name


def promql(expression: str, metric_name: Callable[[str], str] = metric_name) -> str:
    """An expression with the names of series in place of fields. Doubled braces are PromQL's."""
    held = expression.replace("{{", "\0").replace("}}", "\1")
    named = re.sub(r"\{(\w+)\}", lambda found: metric_name(found[1]), held)
    return named.replace("\0", "{").replace("\1", "}")
