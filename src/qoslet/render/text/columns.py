"""The numbers of a planned group as cells: one function for each column that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.render.units import cores, memory, size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qoslet.core.plan.effective_memory import FullNodeCgroup
    from qoslet.core.resources.cgroup_tree import Cgroup, Setting

    Rows = Mapping[str, Setting]
    Cell = Callable[[Cgroup, Rows, bool], str]

WEIGHT = ("cpu.weight", "cpu.shares")
BANDWIDTH = ("cpu.max", "cpu.cfs_quota_us")
LIMIT = ("memory.max", "memory.limit_in_bytes")
DRAWN = frozenset(
    (
        *WEIGHT,
        *BANDWIDTH,
        *LIMIT,
        "cpu.cfs_period_us",
        "memory.min",
        "memory.low",
        "memory.high",
        "memory.swap.max",
        "memory.memsw.limit_in_bytes",
        "pids.max",
    )
)
"""The files that have a column; the others are listed on demand."""


def _first(rows: Rows, files: tuple[str, ...]) -> Setting | None:
    for file in files:
        if file in rows:
            return rows[file]
    return None


def weight(cgroup: Cgroup, rows: Rows, exact: bool) -> str:
    """cpu.weight, or cpu.shares on v1."""
    row = _first(rows, WEIGHT)
    return row.value if row else ""


def processor(cgroup: Cgroup, rows: Rows, exact: bool) -> str:
    """CPU request and limit: ``100m→500m``, ``→max`` where nothing limits; what the group
    was given at node and tier level."""
    asked = _first(rows, WEIGHT)
    milli = asked.inputs[1] if asked and len(asked.inputs) > 1 else 0
    request = cores(milli) if isinstance(milli, int) and milli else ""
    limit = cpu_limit(rows, exact)
    if cgroup.level in ("node", "qos"):
        return request
    if not request and limit == "max":
        return ""
    return f"{request}→{limit}"


def cpu_limit(rows: Rows, exact: bool) -> str:
    """The quota in cores, ``max`` without one; ``exact`` gives quota and period."""
    row = _first(rows, BANDWIDTH)
    if row is None:
        return "max"
    quota, _, period = row.applied.partition(" ")
    if not period:
        period = rows["cpu.cfs_period_us"].applied if "cpu.cfs_period_us" in rows else "100000"
    from qoslet.render.units import bandwidth

    unlimited = quota in ("max", "-1")
    return "max" if unlimited else bandwidth(quota, period, exact)


def _amount(*files: str) -> Cell:
    def cell(cgroup: Cgroup, rows: Rows, exact: bool) -> str:
        row = _first(rows, files)
        if row is None:
            return ""
        return row.value if exact else memory(row.applied)

    return cell


def swap(cgroup: Cgroup, rows: Rows, exact: bool) -> str:
    """Swap beyond memory; on v1 the file holds the sum of both."""
    row = rows.get("memory.swap.max")
    if row is not None:
        return row.value if exact else memory(row.applied)
    both, limit = rows.get("memory.memsw.limit_in_bytes"), rows.get("memory.limit_in_bytes")
    if both is None:
        return ""
    if exact or limit is None or both.value == "-1" or limit.value == "-1":
        return both.value if exact else memory(both.applied)
    return memory(str(int(both.value) - int(limit.value)))


def processes(cgroup: Cgroup, rows: Rows, exact: bool) -> str:
    """pids.max."""
    row = rows.get("pids.max")
    return row.value if row else ""


def oom(cgroup: Cgroup, rows: Rows, exact: bool) -> str:
    """oom_score_adj of the processes."""
    return "" if cgroup.oom_score_adj is None else str(cgroup.oom_score_adj)


def none(cgroup: Cgroup, rows: Rows, exact: bool) -> str:
    """A cell that the settings alone do not tell."""
    return ""


def protected_bytes(standing: FullNodeCgroup | None, exact: bool) -> str:
    """The bytes that reclaim leaves a cgroup on a full node; empty where it claims none."""
    if standing is None or not (standing.claim.min or standing.claim.low):
        return ""
    return size(standing.worth.protected, exact)


def cut_protection(standing: FullNodeCgroup | None, exact: bool) -> str:
    """The same, empty where it is all that the cgroup claims."""
    if standing is None or not any(standing.lost(file) for file in PROTECTION):
        return ""
    return protected_bytes(standing, exact)


COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("weight", weight),
    ("cpu", processor),
    ("min", _amount("memory.min")),
    ("low", _amount("memory.low")),
    ("worth", none),
    ("high", _amount("memory.high")),
    ("max", _amount(*LIMIT)),
    ("swap", swap),
    ("pids", processes),
    ("oom", oom),
)
"""Column name to cell, in the order in which they are drawn."""


def heading(column: str, hierarchy: str) -> str:
    """What stands above a column: v1 has shares where v2 has a weight."""
    return "shares" if column == "weight" and hierarchy == "v1" else column


GROUPS = (("CPU", ("weight", "cpu")), ("MEMORY", ("min", "low", "worth", "high", "max", "swap")))
"""The headings above columns."""


def label(cgroup: Cgroup, qos: str | None, alone: bool = False) -> str:
    """What people call the group: the tier, the pod, the container.

    A pod in no tier says its class, a container that is not a regular one its role.

    ``alone`` names the pod at a container that stands below no pod's group.
    """
    pod = cgroup.pod
    if pod is None:
        leaf = cgroup.name.rsplit("/", 1)[-1]
        return leaf if cgroup.level == "qos" else cgroup.name.lstrip("/") or "/"
    name = pod.key.removeprefix("default/")
    if cgroup.level == "pod":
        return f"{name} (Guaranteed)" if qos == "Guaranteed" else name
    prefix = f"{name}/" if alone else ""
    if cgroup.container is None:
        return f"{prefix}(sandbox)"
    role = "" if cgroup.role in (None, "regular") else f" ({cgroup.role})"
    return f"{prefix}{cgroup.container.name}{role}"
