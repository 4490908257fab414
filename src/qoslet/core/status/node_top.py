"""The cgroups of a node as ``top`` shows them: the planned tree with what each uses now.

Pure: a plan and two observations come in. The rows are those of every node, whoever runs its
pods; a cgroup that appears between two looks has no rates yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.api.pod import Container, Pod
from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.cgroup.names import parents
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.cgroup.usage.fair_share import cap_of
from qoslet.core.cgroup.usage.rates import Usage, between
from qoslet.core.quantity import ZERO, Quantity
from qoslet.core.resources.cgroup_tree import Cgroup, Level, Plan

SortKey = Literal["tree", "cpu", "memory", "pressure", "throttled", "name"]
SORT_KEYS: tuple[SortKey, ...] = ("tree", "cpu", "memory", "pressure", "throttled", "name")

FILES_V2 = (
    "cpu.max",
    "cpu.pressure",
    "memory.events",
    "memory.high",
    "memory.low",
    "memory.max",
    "memory.min",
    "memory.pressure",
)
FILES_V1 = ("cpu.cfs_period_us", "cpu.cfs_quota_us", "memory.limit_in_bytes")
"""What is read of each cgroup beside its usage."""

_NO_LIMIT = 1 << 60
_LEVELS: Mapping[Level, int] = {"node": 0, "qos": 1, "pod": 2, "sandbox": 3, "container": 3}


class TopRow(Struct, frozen=True):
    """One cgroup. ``cpu`` is in cores, ``cpu_request`` and ``cpu_limit``, too; memory is bytes, None
    where there is none. ``throttled`` is seconds since the last look, ``pressure`` and
    ``cpu_pressure`` the share of ten seconds in which tasks waited (PSI some avg10), ``events``
    those of memory since the cgroup exists. ``parent`` is the name of the row above, ``identity`` tells
    a cgroup from its successor at the same path."""

    name: str
    path: str
    level: Level
    title: str
    parent: str
    depth: int
    qos: str = ""
    exists: bool = False
    cpu: float | None = None
    cpu_request: float | None = None
    cpu_limit: float | None = None
    throttled: float | None = None
    memory: int | None = None
    memory_request: int | None = None
    memory_high: int | None = None
    memory_limit: int | None = None
    memory_protected: int = 0
    pressure: float | None = None
    cpu_pressure: float | None = None
    oom_kills: int | None = None
    events: Mapping[str, int] = {}
    identity: int = 0
    has_ended: bool = False
    """Whether its container has: then it is absent as it should be."""
    how_ended: str = ""

    @property
    def memory_share(self) -> float | None:
        """The part of its limit that is used; None without either."""
        if self.memory is None or not self.memory_limit:
            return None
        return self.memory / self.memory_limit

    @property
    def cpu_share(self) -> float | None:
        """The part of its quota that is used; None without either."""
        return None if self.cpu is None or not self.cpu_limit else self.cpu / self.cpu_limit


class PlannedRow(Struct, frozen=True):
    """What a plan says of one cgroup that ``top`` shows. ``planned`` are the values of its files as
    the kernel prints them; the other fields are as of ``TopRow``."""

    name: str
    path: str
    level: Level
    title: str
    parent: str
    depth: int
    qos: str = ""
    cpu_request: float | None = None
    memory_request: int | None = None
    planned: Mapping[str, str] = {}
    has_ended: bool = False
    how_ended: str = ""


def top_rows(plan: Plan, before: Observed | None, now: Observed) -> tuple[TopRow, ...]:
    """The planned cgroups in their order, parents first, without sandboxes."""
    return live_rows(planned_rows(plan), before, now)


def planned_rows(plan: Plan) -> tuple[PlannedRow, ...]:
    """The planned cgroups in their order, parents first, without sandboxes."""
    qos = {row.pod.uid: row.qos for row in plan.pods}
    depths: dict[str, int] = {}
    rows = []
    for cgroup in plan.cgroups:
        if cgroup.level == "sandbox":
            continue
        above = next((one for one in parents(cgroup.name) if one in depths), "")
        depths[cgroup.name] = depths[above] + 1 if above else 0
        rows.append(_planned(cgroup, above, depths[cgroup.name], qos))
    return tuple(rows)


def live_rows(
    rows: Sequence[PlannedRow], before: Observed | None, now: Observed
) -> tuple[TopRow, ...]:
    """The rows with what their cgroups use now."""
    usage = between(before, now) if before is not None else {}
    return tuple(_row(row, now.cgroups.get(row.path), usage.get(row.path)) for row in rows)


def arranged(
    rows: Sequence[TopRow],
    sort: SortKey = "tree",
    folded: Collection[str] = (),
    wanted: str = "",
) -> list[TopRow]:
    """The rows as they are shown: siblings by ``sort``, those below ``folded`` cgroups left out, and
    with ``wanted`` only what has that text in its title and what it stands in."""
    children: dict[str, list[TopRow]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(row)
    keep = _matching(rows, wanted.casefold()) if wanted else None
    shown: list[TopRow] = []
    stack = _sorted(children.get("", []), sort)[::-1]
    while stack:
        row = stack.pop()
        if keep is not None and row.name not in keep:
            continue
        shown.append(row)
        if row.name not in folded:
            stack += _sorted(children.get(row.name, []), sort)[::-1]
    return shown


def _matching(rows: Sequence[TopRow], wanted: str) -> set[str]:
    """What matches, with everything above and below it."""
    by_name = {row.name: row for row in rows}
    keep: set[str] = set()
    for row in rows:
        if wanted in row.title.casefold() or (row.parent in keep and _hit(by_name, row, wanted)):
            above: TopRow | None = row
            while above is not None and above.name not in keep:
                keep.add(above.name)
                above = by_name.get(above.parent)
    return keep


def _hit(by_name: Mapping[str, TopRow], row: TopRow, wanted: str) -> bool:
    """Whether something above a row matches by itself."""
    above = by_name.get(row.parent)
    while above is not None:
        if wanted in above.title.casefold():
            return True
        above = by_name.get(above.parent)
    return False


def _sorted(rows: list[TopRow], sort: SortKey) -> list[TopRow]:
    if sort == "tree":
        return rows
    if sort == "name":
        return sorted(rows, key=lambda row: row.title)
    return sorted(rows, key=lambda row: -(getattr(row, sort) or 0.0))


def _row(row: PlannedRow, seen: ObservedCgroup | None, used: Usage | None) -> TopRow:
    there = seen or ObservedCgroup("", 0)
    files = {**row.planned, **there.values} if seen is not None else row.planned
    protected = [_bytes(files.get(name)) or 0 for name in PROTECTION]
    # without memory.events it is cgroup v1, whose counter of OOM kills has not those below
    whole = row.level == "container" or bool(there.values.get("memory.events"))
    return TopRow(
        name=row.name,
        path=row.path,
        level=row.level,
        title=row.title,
        parent=row.parent,
        depth=row.depth,
        qos=row.qos,
        exists=seen is not None,
        cpu=used.cpu if used else None,
        cpu_request=row.cpu_request,
        cpu_limit=cap_of(files),
        throttled=used.throttled if used else None,
        memory=there.memory,
        memory_request=row.memory_request,
        memory_high=_bytes(files.get("memory.high")),
        memory_limit=_bytes(files.get("memory.max") or files.get("memory.limit_in_bytes")),
        memory_protected=max(protected),
        pressure=_some(there.values.get("memory.pressure")),
        cpu_pressure=_some(there.values.get("cpu.pressure")),
        oom_kills=there.oom_kills if whole else None,
        events=_events(there.values.get("memory.events", "")),
        identity=there.identity,
        has_ended=row.has_ended,
        how_ended=row.how_ended,
    )


def _planned(cgroup: Cgroup, above: str, depth: int, qos: Mapping[str, str]) -> PlannedRow:
    container, pod = cgroup.container, cgroup.pod
    title = cgroup.name.rpartition("/")[2] or "/"
    if container is not None:
        title = container.name
    elif pod is not None:
        title = pod.key
    requests = container.resources.requests if container is not None else {}
    cpu = _cores(requests.get("cpu"))
    memory = requests["memory"].value if "memory" in requests else None
    if pod is not None and cgroup.level == "pod":
        cpu, memory = _pod_requests(pod)
    return PlannedRow(
        name=cgroup.name,
        path=cgroup.path or "",
        level=cgroup.level,
        title=title,
        parent=above,
        depth=depth,
        qos=qos.get(pod.uid, "") if pod is not None else "",
        cpu_request=cpu,
        memory_request=memory,
        planned=cgroup.applied,
        has_ended=container is not None and container.runs is False,
        how_ended=_how_ended(container),
    )


def _how_ended(container: Container | None) -> str:
    """How a container that does not run ended, and why it is not started; empty where nothing tells."""
    if container is None or container.runs is not False:
        return ""
    last = container.last_exit
    how = () if last is None else (last.reason, f"exit code {last.exit_code}")
    return "; ".join(filter(None, (", ".join(filter(None, how)), container.waits)))


def _pod_requests(pod: Pod) -> tuple[float | None, int | None]:
    """CPU and memory requests of a pod: its own, else of all that run in it."""
    running = [
        one.resources.requests for one in pod.containers if one.role in ("regular", "sidecar")
    ]
    whole = pod.resources.requests if pod.resources is not None else {}
    cpu = (
        whole["cpu"].milli if "cpu" in whole else sum(one.get("cpu", ZERO).milli for one in running)
    )
    memory = (
        whole["memory"].value
        if "memory" in whole
        else sum(one.get("memory", ZERO).value for one in running)
    )
    return cpu / 1000 if cpu else None, memory or None


def _cores(amount: Quantity | None) -> float | None:
    return None if amount is None else amount.milli / 1000


def _bytes(text: str | None) -> int | None:
    """A limit in bytes; None where there is none."""
    if text is None or not text.strip().isdigit():
        return None
    value = int(text)
    return value if value < _NO_LIMIT else None


def _some(text: str | None) -> float | None:
    """``some avg10`` of a pressure file in percent. Source: kernel Documentation/accounting/psi.rst."""
    for line in (text or "").splitlines():
        words = line.split()
        if words and words[0] == "some":
            for word in words[1:]:
                key, _, value = word.partition("=")
                if key == "avg10":
                    try:
                        return float(value)
                    except ValueError:
                        return None
    return None


def _events(text: str) -> dict[str, int]:
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            found[name] = int(value)
    return found
