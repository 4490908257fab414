"""Every value that a surface shows, in one row: its title, unit, metric and place in the JSON.

``ps``, the live screen, the table at the end of a run and the metrics take titles, names and help
texts from here; how a value is read from a snapshot or drawn is theirs. Source of the metrics'
names: a kubelet's, where it has one.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Unit = Literal["", "bytes", "seconds", "pages", "percent"]


class Metric(Struct, frozen=True, gc=False):
    """A Prometheus metric. ``labels`` are all of its labels; ``_total`` is added to a counter's
    name by the text format. ``kubelet`` is the name of what means the same in a kubelet's
    ``/metrics/cadvisor``, empty where nothing does."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    counter: bool = False
    kubelet: str = ""


class Field(Struct, frozen=True, gc=False):
    """One shown value. ``title`` heads its column, empty where it has none.
    ``json`` is its path in the document ``PodStates``, ``[]`` for each item of a list and ``*``
    for each key; empty where the document does not have it."""

    name: str
    title: str = ""
    unit: Unit = ""
    json: str = ""
    metric: Metric | None = None

    @property
    def key(self) -> str:
        """The last part of the path: the key in the document's innermost object."""
        return self.json.rpartition(".")[2]


_POD = ("namespace", "pod", "uid")
_CGROUP = ("level", "pod", "container", "cgroup")


def _gauge(name: str, help: str, *labels: str, kubelet: str = "") -> Metric:
    return Metric(f"qoslet_{name}", help, labels, kubelet=kubelet)


def _counter(name: str, help: str, *labels: str, kubelet: str = "") -> Metric:
    return Metric(f"qoslet_{name}", help, labels, counter=True, kubelet=kubelet)


_PODS = (
    Field("pod_namespace", "namespace", json="items[].namespace"),
    Field("pod_name", "name", json="items[].name"),
    Field("pod_ready", "ready", json="items[].containers[].ready"),
    Field("pod_status", "status", json="items[].status"),
    Field("pod_phase", json="items[].phase",
          metric=_gauge("pods", "Pods by phase.", "phase")),
    Field("pod_reason", json="items[].reason", metric=_gauge(
        "pod_state", "1 for the state that a pod is in.", *_POD, "phase", "reason", "resize")),
    Field("pod_message", json="items[].message"),
    Field("pod_since", "", "seconds", "items[].since"),
    Field("pod_created", "age", "seconds", "items[].createdAt"),
    Field("pod_qos", "QoS", json="items[].qosClass"),
    Field("pod_resize", "resize", json="items[].resize"),
    Field("pod_resize_reason", json="items[].resizeReason"),
    Field("pod_edit", json="items[].editRejected"),
    Field("pod_uid", "UID", json="items[].uid"),
    Field("pod_manifest", "manifest", json="items[].manifest"),
    Field("pod_retries", json="items[].retries", metric=_gauge(
        "pod_retries", "Attempts at a pod that failed in a row.", *_POD)),
    Field("pod_retry_in", "", "seconds", "items[].retryInSeconds"),
    Field("pod_cpu", "CPU", json="items[].usage.cpuCores"),
    Field("pod_cpu_share", "CPU/limit", json="items[].usage.cpuOfLimit"),
    Field("pod_throttled", "throttled", "seconds", "items[].usage.throttledSeconds"),
    Field("pod_memory", "memory", "bytes", "items[].usage.memoryBytes"),
    Field("pod_memory_share", "mem/limit", json="items[].usage.memoryOfLimit"),
)  # fmt: skip

_AGENT = (
    Field("summary", json="summary"),
    Field("cycle", json="cycle", metric=_counter("cycles", "Turns of the loop.")),
    Field("differences", metric=_gauge(
        "differences", "Differences between plan and kernel that the last turn found.")),
    Field("pending", json="pending",
          metric=_gauge("writes_pending", "Writes that go on in the kernel.")),
    Field("waiting", json="waiting",
          metric=_gauge("limits_waiting", "Limits that usage holds above the plan.")),
)  # fmt: skip

_MEMORY = (
    Field("memory", "memory", "bytes", "memory.groups[].currentBytes",
          _gauge("memory_usage_bytes", "Memory of a group.", *_CGROUP,
                 kubelet="container_memory_usage_bytes")),
    Field("memory_peak", "peak", "bytes",
          metric=_gauge("memory_peak_bytes", "Most memory that a group had.", *_CGROUP,
                        kubelet="container_memory_max_usage_bytes")),
    Field("memory_protected", "", "bytes", "memory.groups[].protectedLowBytes", _gauge(
        "memory_protected_bytes", "Memory of a group that is protected at most, by kind.",
        *_CGROUP, "kind")),
    Field("memory_claimed", "", "bytes", "memory.groups[].lowBytes", _gauge(
        "memory_claimed_bytes", "Memory of a group that its memory.low or memory.min claims.",
        *_CGROUP, "kind")),
    Field("memory_room", "", "bytes", "memory.groups[].binds.room", _gauge(
        "memory_room_bytes", "Memory that a group may still use before a limit binds.", *_CGROUP)),
    Field("memory_limit", "limit", "bytes", "memory.groups[].maxBytes"),
    Field("guard_overrides", json="memory.guard.held", metric=_gauge(
        "guard_held", "Groups whose memory.high the guard has raised or lifted.")),
    Field("guard_not_freed", json="memory.watched[].notFreedSeconds", metric=_gauge(
        "guard_not_freed_seconds",
        "Longest time for which nothing was freed of a group at its memory.high.")),
    Field("guard_decisions", json="memory.guard.decisions", metric=_counter(
        "guard_decisions", "What the guard did, or would have done (mode observe).",
        "mode", "answer")),
    Field("pressure_decisions", json="memory.pressure.decisions", metric=_counter(
        "memory_pressure_decisions", "What was decided where memory was short.", "verdict")),
)  # fmt: skip

_USAGE = (
    Field("container_state", "state", json="items[].containers[].reason"),
    Field("container_exit", "exit", json="items[].containers[].exitCode"),
    Field("container_restart_at", "retry", "seconds",
          "items[].containers[].restartAt"),
    Field("container_restarts", "restarts", json="items[].containers[].restarts",
          metric=_counter(
              "container_restarts", "Starts of a container after its first.", *_POD, "container")),
    Field("cpu", "CPU", "seconds",
          metric=_counter("cpu_usage_seconds", "CPU time of a group.", *_CGROUP,
                          kubelet="container_cpu_usage_seconds")),
    Field("cpu_throttled", "throttled", "seconds", metric=_counter(
        "cpu_throttled_seconds", "Time that a group was throttled.", *_CGROUP,
        kubelet="container_cpu_cfs_throttled_seconds")),
    Field("cpu_quota", "quota"),
    Field("cpu_got", "got", "percent"),
    Field("cpu_expected", "expected", "percent"),
    Field("oom_kills", "OOM kills", metric=_counter(
        "oom_kills", "Processes that the kernel killed for memory in a group.", *_CGROUP)),
    Field("requested", "asked"),
)  # fmt: skip

_EVENTS = (
    Field("memory_events", json="memory.groups[].events.*", metric=_counter(
        "memory_events", "What happened to the memory of a group, over its restarts.",
        *_CGROUP, "event")),
    Field("memory_reclaim", "", "pages", "memory.groups[].reclaim.*", _counter(
        "memory_reclaim_pages", "Pages of a group in reclaim, by where its usage was.",
        *_CGROUP, "zone", "what")),
    Field("memory_stalled", "", "seconds", "memory.groups[].stalledSeconds", _counter(
        "memory_stalled_seconds", "Time in which all processes of a group waited for memory.",
        *_CGROUP, kubelet="container_pressure_memory_stalled_seconds")),
    Field("memory_waiting", "", "seconds", "memory.groups[].waitingSeconds", _counter(
        "memory_waiting_seconds", "Time in which some process of a group waited for memory.",
        *_CGROUP, kubelet="container_pressure_memory_waiting_seconds")),
    Field("node_pressure", "", "seconds", metric=_counter(
        "memory_pressure_seconds", "Time in which processes of the machine waited for memory.",
        "kind")),
)  # fmt: skip

FIELDS = (*_PODS, *_AGENT, *_MEMORY, *_USAGE, *_EVENTS)
"""Every field; metrics are printed in this order, gauges before counters."""

LEFT_OUT = _gauge(
    "series_left_out",
    "Series of a level that are left out, since there would be more than the agent may have.",
    "level",
)
WORK = Metric(
    "qoslet_cgroup_manager_duration_seconds",
    "Work on a group, by what was done.",
    ("operation_type",),
)
WORK_FAILED = _counter("cgroup_manager_failures", "Work on a group that failed.", "operation_type")
OF_AGENT = {"left_out": LEFT_OUT, "work": WORK, "work_failed": WORK_FAILED}
"""What the metrics say of the agent itself, from no field."""

BY_NAME = {field.name: field for field in FIELDS}


def heading(name: str) -> str:
    """The title of a column of a table in capitals."""
    return BY_NAME[name].title.upper()


def title(name: str) -> str:
    """The title of a column."""
    return BY_NAME[name].title
