"""The one value that every surface draws: the planned tree with what was written and what is.

``take`` joins a plan, an observation, the usage since the last one and the containers' states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from qoslet.core.api.pod import Container
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.cgroup.usage.rates import Usage
from qoslet.core.problem import Problem
from qoslet.core.quantity import canonical
from qoslet.core.resources.cgroup_tree import Cgroup, Level, Plan
from qoslet.core.status.memory_view import MemoryView
from qoslet.core.status.meter import Meter
from qoslet.core.status.pod_events import PodEvent
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.pod_status import PodRow


class GroupRow(Struct, frozen=True):
    """One group. ``asked`` holds the container's requests and limits as written in the
    manifest (``requests.cpu``), ``planned`` file to value, ``found`` the same files as read.
    ``cpu`` is in cores, ``memory`` in bytes, ``throttled`` in seconds since the last look;
    ``oom_kills`` and ``memory_peak`` since the group exists, as ``cpu_seconds``, the CPU time;
    ``runnable`` counts the threads that wanted a CPU when it was looked at, ``identity`` tells
    one group from its successor at the same path; ``uid`` is the pod's. None means unknown."""

    path: str
    name: str
    level: Level
    title: str
    qos: str = ""
    pod: str = ""
    container: str = ""
    role: str = ""
    asked: Mapping[str, str] = {}
    planned: Mapping[str, str] = {}
    found: Mapping[str, str] = {}
    exists: bool = False
    cpu: float | None = None
    throttled: float | None = None
    memory: int | None = None
    memory_peak: int | None = None
    oom_kills: int | None = None
    cpu_seconds: float | None = None
    throttled_seconds: float | None = None
    runnable: int | None = None
    identity: int = 0
    state: str = ""
    exit_code: int | None = None
    restarts: int = 0
    oom_killed: bool = False
    uid: str = ""


class Snapshot(Struct, frozen=True):
    """One sync of the loop. ``at`` is monotonic seconds, ``cores`` the machine's CPUs,
    ``memory`` its bytes, ``busy_seconds`` the CPU time that was used or stolen on all of it.
    ``differences`` were found, ``done`` steps worked, ``failed`` did not; ``pending`` are those
    that go on in the kernel, ``waiting`` the limits that usage holds above the plan, ``notes``
    what others did to the tree, ``events`` what happened to pods. ``summary`` says it in one sentence.
    ``last_sync_seconds``: so long ago the last sync ended, where the next one waits in its middle;
    then there is nothing but the pods."""

    cycle: int
    at: float
    cores: float
    memory: int
    groups: tuple[GroupRow, ...]
    busy_seconds: float | None = None
    problems: tuple[Problem, ...] = ()
    differences: int = 0
    done: int = 0
    failed: int = 0
    pending: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    events: tuple[PodEvent, ...] = ()
    summary: str = ""
    pods: tuple[PodRow, ...] = ()
    meters: Mapping[str, Meter] = {}
    memory_view: MemoryView = MemoryView()
    last_sync_seconds: float | None = None

    @property
    def true(self) -> bool:
        """Whether the tree was what it should be, and nothing failed."""
        return not self.differences and not self.failed


def rows(
    plan: Plan,
    observed: Observed,
    usage: Mapping[str, Usage],
    states: Iterable[ContainerState],
    runnable: Mapping[str, int],
) -> tuple[GroupRow, ...]:
    """The groups of ``plan`` in its order, with what is known about each; ``runnable`` is by
    path."""
    v1 = plan.node.hierarchy == "v1"
    qos = {planned.pod.uid: planned.qos for planned in plan.pods}
    by_path = {state.cgroup: state for state in states}
    return tuple(
        _row(
            group,
            qos.get(group.pod.uid, "") if group.pod else "",
            observed.cgroups.get(group.path),
            usage.get(group.path),
            by_path.get(group.path),
            runnable.get(group.path),
            local=v1 and group.level != "container",
        )
        for group in plan.cgroups
        if group.path is not None
    )


def _row(
    group: Cgroup,
    qos: str,
    seen: ObservedCgroup | None,
    used: Usage | None,
    state: ContainerState | None,
    runnable: int | None,
    *,
    local: bool,
) -> GroupRow:
    """One group with everything joined. ``local``: its counter of OOM kills has not those below
    it (v1), so it says nothing of the group. Source: mm/memcontrol.c, mem_cgroup_oom_control_read
    counts per memcg."""
    there = seen or _ABSENT
    planned = {setting.file: setting.value for setting in group.settings}
    found = {file: there.values[file] for file in planned if file in there.values}
    return GroupRow(
        path=group.path or "",
        name=group.name,
        level=group.level,
        title=_title(group),
        qos=qos,
        pod=group.pod.key if group.pod else "",
        container=group.container.name if group.container else "",
        role=group.role or "",
        asked=asked(group.container) if group.container else {},
        planned=planned,
        found=found,
        exists=seen is not None,
        cpu=used.cpu if used else None,
        throttled=used.throttled if used else None,
        memory=there.memory,
        memory_peak=there.memory_peak,
        oom_kills=None if local else there.oom_kills,
        cpu_seconds=_seconds(there.usage_usec),
        throttled_seconds=_seconds(there.throttled_usec),
        runnable=runnable,
        identity=there.identity,
        state=_state(state) if state else "",
        exit_code=state.exit_code if state else None,
        restarts=state.restarts if state else 0,
        oom_killed=state.oom_killed if state else False,
        uid=group.pod.uid if group.pod else "",
    )


def _title(group: Cgroup) -> str:
    """What a person calls the group: container, pod, or the last part of its name."""
    if group.container is not None:
        return group.container.name
    return group.pod.key if group.pod else group.name.rpartition("/")[2] or "/"


_ABSENT = ObservedCgroup("", 0)


def _seconds(microseconds: int | None) -> float | None:
    """Microseconds as seconds."""
    return None if microseconds is None else microseconds / 1e6


def _state(state: ContainerState) -> str:
    """``running``, why it is not, or ``waiting``."""
    return "running" if state.running and not state.starting else state.reason or "waiting"


def asked(container: Container) -> dict[str, str]:
    """Requests and limits that the manifest gave, as ``requests.cpu`` to its text."""
    resources = container.resources
    return {
        f"{kind}.{name}": canonical(quantity)
        for kind, amounts in (("requests", resources.requests), ("limits", resources.limits))
        for name, quantity in amounts.items()
    }
