"""A node as the web page shows it: its resources, QoS classes and pods, from one look.

Pure. The rows are those of ``top``, so that both show the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.api.pod import Pod, Quantities
from qoslet.core.audit.finding import Finding
from qoslet.core.node.node import allocatable, reserved
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.status.node_top import TopRow

Resource = Literal["memory", "cpu"]
RESOURCES: tuple[Resource, ...] = ("memory", "cpu")
QOS_CLASSES = ("Guaranteed", "Burstable", "BestEffort")

AT_LIMIT, NEAR_LIMIT = 0.95, 0.85
"""Parts of its memory limit from which on a pod is worth a look."""
THROTTLED_SHARE, PRESSURE_PERCENT = 0.05, 5.0
_STARTING = ("ContainerCreating", "PodInitializing")
STALE_INTERVALS = 3
"""Looks that may fail before what is shown is called stale."""


class Amounts(Struct, frozen=True):
    """One resource of a cgroup, in cores or bytes; None where there is none. ``throttle`` is
    memory.high."""

    used: float | None = None
    requested: float | None = None
    protected: float | None = None
    throttle: float | None = None
    limited: float | None = None


class PodView(Struct, frozen=True):
    """A pod with its containers. ``findings`` counts those of the audit, ``marks`` are the reasons
    to look at it."""

    row: TopRow
    containers: tuple[TopRow, ...] = ()
    findings: int = 0
    marks: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """Of the pod."""
        return self.row.title.partition("/")[0]

    @property
    def name(self) -> str:
        """Of the pod, without its namespace."""
        return self.row.title.partition("/")[2]


class NodeView(Struct, frozen=True):
    """One look. ``capacity``, ``reserved`` and ``allocatable`` are in cores and bytes; ``at`` is
    monotonic seconds, ``seconds`` the time between the looks that rates are from; ``interval`` None:
    the node does not change. ``look`` counts."""

    plan: Plan
    rows: tuple[TopRow, ...]
    pods: tuple[PodView, ...]
    capacity: Mapping[Resource, float]
    reserved: Mapping[Resource, float]
    allocatable: Mapping[Resource, float]
    at: float
    seconds: float = 0.0
    interval: float | None = None
    trouble: str = ""
    look: int = 0


class Freshness(Struct, frozen=True):
    """How old a look is, by a clock that nobody sets."""

    age: float
    stale: bool


def freshness(view: NodeView, now: float) -> Freshness:
    """Of a look, at ``now`` monotonic seconds."""
    age = max(0.0, now - view.at)
    bound = None if view.interval is None else STALE_INTERVALS * view.interval + 1.0
    return Freshness(age, bound is not None and age > bound)


def amounts(row: TopRow, resource: Resource) -> Amounts:
    """One resource of a row."""
    if resource == "cpu":
        return Amounts(row.cpu, row.cpu_request, None, None, row.cpu_limit)
    protected = row.memory_protected or None
    return Amounts(row.memory, row.memory_request, protected, row.memory_high, row.memory_limit)


def node_view(
    plan: Plan,
    rows: Sequence[TopRow],
    findings: Sequence[Finding] = (),
    *,
    at: float = 0.0,
    seconds: float = 0.0,
    interval: float | None = None,
    trouble: str = "",
    look: int = 0,
) -> NodeView:
    """The view of a look."""
    below: dict[str, list[TopRow]] = {}
    for row in rows:
        if row.level == "container":
            below.setdefault(row.parent, []).append(row)
    found = Counter("/".join(one.pod) for one in findings if one.pod is not None and one.counts)
    pods, known = [], {one.pod.key: one.pod for one in plan.pods}
    for row in rows:
        if row.level == "pod":
            containers = tuple(below.get(row.name, ()))
            count = found[row.title]
            found_marks = marks(row, containers, seconds, count, known.get(row.title))
            pods.append(PodView(row, containers, count, found_marks))
    node = plan.node
    return NodeView(
        plan=plan,
        rows=tuple(rows),
        pods=tuple(pods),
        capacity=_amounts(node.capacity),
        reserved=_amounts(reserved(node)),
        allocatable=_amounts(allocatable(node)),
        at=at,
        seconds=seconds,
        interval=interval,
        trouble=trouble,
        look=look,
    )


def marks(
    row: TopRow,
    containers: Sequence[TopRow],
    seconds: float,
    findings: int,
    pod: Pod | None = None,
) -> tuple[str, ...]:
    """Why a pod is worth a look, the worst first; empty where nothing is. ``pod`` has what its status says."""
    all_rows = (row, *containers)
    if not row.exists:
        return ("absent",)
    told = () if pod is None else pod.containers
    found = list(dict.fromkeys(one.waits for one in told if one.waits not in ("", *_STARTING)))
    last = {one.last_exit.reason for one in told if one.last_exit is not None}
    if "OOMKilled" in last or any(one.oom_kills for one in all_rows):
        found.append("OOM-killed")
    share = max((one.memory_share or 0.0 for one in all_rows), default=0.0)
    if share > AT_LIMIT:
        found.append("at memory limit")
    elif share > NEAR_LIMIT:
        found.append("near memory limit")
    if max(one.pressure or 0.0 for one in all_rows) > PRESSURE_PERCENT:
        found.append("waits for memory")
    if seconds and max(one.throttled or 0.0 for one in all_rows) > THROTTLED_SHARE * seconds:
        found.append("throttled")
    if findings:
        found.append("audit finding" if findings == 1 else f"{findings} audit findings")
    return tuple(found)


def requested(view: NodeView, resource: Resource, qos: str = "") -> float:
    """What the pods of a class requested together; of all where it is empty."""
    return sum(
        amounts(pod.row, resource).requested or 0.0
        for pod in view.pods
        if not qos or pod.row.qos == qos
    )


def used(view: NodeView, resource: Resource, qos: str = "") -> float | None:
    """What the pods of a class use together; None where it is known of none."""
    known = [
        value
        for pod in view.pods
        if not qos or pod.row.qos == qos
        if (value := amounts(pod.row, resource).used) is not None
    ]
    return sum(known) if known else None


def _amounts(quantities: Quantities) -> dict[Resource, float]:
    found: dict[Resource, float] = {}
    cpu, memory = quantities.get("cpu"), quantities.get("memory")
    if cpu is not None:
        found["cpu"] = cpu.milli / 1000
    if memory is not None:
        found["memory"] = float(memory.value)
    return found
