"""The part of the pods' CPU that each planned cgroup gets when all of them want all they can.

Weights count among siblings: a part is the product of the parts on the way down. Only who runs
competes: no sandbox, no init container that ends, no QoS cgroup without pods, no Windows pod, which
has no cgroup. Quotas are another question. Source: sched-design-CFS; kernel sched.h
``WEIGHT_IDLEPRIO`` for ``cpu.idle``.
"""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.core.cgroup.usage.fair_share import weight_of
from qoslet.core.resources.cgroup_tree import Cgroup, Plan

_IDLE = {"cpu.shares": 3.0, "cpu.weight": 0.3}


def cpu_shares(plan: Plan) -> Mapping[str, float]:
    """The part of each competing cgroup by name, 1.0 for that of all pods; empty where the plan
    has no cgroups."""
    if plan.node.os == "windows":
        return {}
    children: dict[str, list[Cgroup]] = {}
    names = {cgroup.name for cgroup in plan.cgroups}
    tops: list[Cgroup] = []
    for cgroup in plan.cgroups:
        if not competes(cgroup):
            continue
        above = cgroup.name.rpartition("/")[0]
        if above in names:
            children.setdefault(above, []).append(cgroup)
        elif cgroup.level != "node" or cgroup.name.endswith("/kubepods"):
            tops.append(cgroup)
    found: dict[str, float] = {}
    if len(tops) == 1 and tops[0].level == "node":
        found[tops[0].name] = 1.0
        _divide(children.get(tops[0].name, []), 1.0, children, found)
    else:
        _divide(tops, 1.0, children, found)
    return found


def competes(cgroup: Cgroup) -> bool:
    """Whether who runs in it, or below it, wants CPU for long."""
    if cgroup.level == "sandbox" or (cgroup.pod is not None and cgroup.pod.os == "windows"):
        return False
    return cgroup.level != "container" or cgroup.role in ("regular", "sidecar")


def _divide(
    siblings: list[Cgroup],
    part: float,
    children: Mapping[str, list[Cgroup]],
    found: dict[str, float],
) -> None:
    running = [one for one in siblings if one.level != "qos" or _has_pods(one, children)]
    weights = [cgroup_weight(one) for one in running]
    whole = sum(weights)
    for one, weight in zip(running, weights, strict=True):
        found[one.name] = part * weight / whole if whole else 0.0
        _divide(children.get(one.name, []), found[one.name], children, found)


def _has_pods(cgroup: Cgroup, children: Mapping[str, list[Cgroup]]) -> bool:
    return any(
        child.level == "pod" or _has_pods(child, children)
        for child in children.get(cgroup.name, [])
    )


def cgroup_weight(cgroup: Cgroup) -> float:
    """What a cgroup has beside its siblings."""
    files = cgroup.applied
    if files.get("cpu.idle") == "1":
        return _IDLE["cpu.weight" if "cpu.weight" in files else "cpu.shares"]
    return weight_of(files)
