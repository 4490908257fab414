"""How the vectors of classes, pod sums, pod groups, tiers and the node's cgroups are run."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from qoslet.core.api.aggregate import SumRules, limits, pod_level_set, requests
from qoslet.core.api.pod import Quantities
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from qoslet.core.quantity import NANO
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.qos_cgroups import (
    QosTotals,
    numbers_of,
    pod_files,
    qos_cgroup_files,
    reserved_files,
)
from qoslet.core.resources.qos_class import classify
from qoslet.core.rules import memory
from qoslet.core.rules.hugetlb import size_of_resource, size_text
from tests.core.vectors.fixtures import (
    SIZES,
    Json,
    files,
    node_of,
    pairs,
    pod_of,
    policy_for,
    quantities,
    resources,
)
from tests.core.vectors.resource_config import Config, read_config, update_settings
from tests.core.vectors.vectors import Vector, runs

Pair = tuple[object, object]

_SPELLED = {
    "memory": "memory",
    "cpu_shares": "cpuShares",
    "cpu_quota": "cpuQuota",
    "cpu_period": "cpuPeriod",
    "pids": "pidsLimit",
    "hugepages": "hugePageLimit",
    "unified": "unified",
}


def spelled(config: Config) -> dict[str, Any]:
    """A configuration in the vectors' spelling, unset fields left out."""
    found = {}
    for name, key in _SPELLED.items():
        value = getattr(config, name)
        if isinstance(value, dict):
            value = {str(size): amount for size, amount in value.items() if amount != 0}
        if value is not None and value != {}:
            found[key] = value
    return found


def config_of(given: Json | None) -> Config | None:
    """A configuration of a vector."""
    if given is None:
        return None
    fields = {name: given[key] for name, key in _SPELLED.items() if key in given}
    if "hugepages" in fields:
        fields["hugepages"] = {int(size): n for size, n in fields["hugepages"].items()}
    return Config(**fields)


@runs("qos_class")
def qos_class(vector: Vector, minor: int) -> Pair:
    gates = {"PodLevelResources": vector.given["podLevelResourcesGate"]}
    rules = policy_for(minor, gates=gates).qos_rules
    return classify(pod_of(vector.given["pod"]), rules), vector.expected


def _for_pod(vector: Vector, minor: int, hierarchy: str) -> NodePolicy:
    given = vector.given
    gates = {
        "CustomCPUCFSQuotaPeriod": True,
        "MemoryQoS": given.get("enforceMemoryQoS", False),
        "PodLevelResources": given.get("podLevelResourcesGate", True),
    }
    sizes = (2 << 20, 4 << 20) if "hugepages-" in str(given["pod"]) else ()
    return policy_for(
        minor,
        gates=gates,
        host={"hierarchy": hierarchy, "hugepage_sizes": sizes},
        cpu_cfs_quota=given.get("enforceCPULimits", True),
        cpu_cfs_quota_period_us=given.get("cpuCFSQuotaPeriodUsec", 100_000),
        memory_reservation_policy=given.get("memoryReservationPolicy") or "None",
        memory_throttling_factor=given.get("factor"),
    )


def pod_config(policy: NodePolicy, given: Json) -> Config:
    """What the pod's own group is written with."""
    pod = pod_of(given)
    qos = classify(pod, policy.qos_rules)
    return read_config(pairs(pod_files(policy, pod, qos, numbers_of(policy, pod)).settings()))


@runs("resource_config_for_pod")
def resource_config(vector: Vector, minor: int) -> Pair:
    policy = _for_pod(vector, minor, "v1")
    return spelled(pod_config(policy, vector.given["pod"])), vector.expected


@runs("resource_config_for_pod_unified")
def resource_config_unified(vector: Vector, minor: int) -> Pair:
    config = pod_config(_for_pod(vector, minor, "v2"), vector.given["pod"])
    return config.unified, vector.expected


@runs("pod_level_memory_high")
def pod_level_high(vector: Vector, minor: int) -> Pair:
    def high(pod: Json) -> str | None:
        given = Vector(vector.id, vector.fn, {**vector.given, "enforceMemoryQoS": True}, None)
        return (pod_config(_for_pod(given, minor, "v2"), pod).unified or {}).get("memory.high")

    pod = vector.given["pod"]
    found = high(pod)
    if "relation" not in vector.expected:
        return {"memory.high": found}, vector.expected
    without = high({**pod, "overhead": {}})
    assert found is not None
    assert without is not None
    return int(found) > int(without), True


def _exact(amounts: Quantities) -> dict[str, Fraction]:
    return {name: Fraction(amount.nano, NANO) for name, amount in amounts.items()}


@runs("pod_requests", "pod_limits")
def pod_sums(vector: Vector, _: int) -> Pair:
    options = vector.given["options"]
    rules = SumRules(pod_level=not options.get("skipPodLevelResources", False))
    overhead = not options.get("excludeOverhead", False)
    summed = requests if vector.fn == "pod_requests" else limits
    found = summed(pod_of(vector.given["pod"]), rules, overhead=overhead)
    return _exact(found), {name: Fraction(text) for name, text in vector.expected.items()}


@runs("is_pod_level_resources_set")
def level_set(vector: Vector, _: int) -> Pair:
    given = vector.given["resources"]
    return pod_level_set(None if given is None else resources(given)), vector.expected


def tiers(node: Node, pods: list[Json]) -> dict[str, Config]:
    """kubepods and the QoS tiers of a plan, by the last part of their names."""
    cgroups = plan([pod_of(one) for one in pods], node).cgroups
    return {
        group.name.rsplit("/", 1)[1]: read_config(pairs(group.settings))
        for group in cgroups
        if group.level in ("node", "qos")
    }


@runs("qos_cpu_shares")
def tier_shares(vector: Vector, minor: int) -> Pair:
    found = tiers(node_of(minor, host={"hierarchy": "v1"}), vector.given["pods"])
    found["guaranteed"] = found.pop("kubepods")
    return {name: {"cpuShares": config.cpu_shares} for name, config in found.items()}, (
        vector.expected
    )


@runs("qos_memory_qos")
def tier_memory_qos(vector: Vector, minor: int) -> Pair:
    reservation = vector.given.get("memoryReservationPolicy") or "None"
    node = node_of(minor, gates={"MemoryQoS": True}, memory_reservation_policy=reservation)
    found = tiers(node, vector.given["pods"])
    return {name: found[name].unified or {} for name in vector.expected}, vector.expected


@runs("qos_memory_reserve")
def tier_reserve(vector: Vector, minor: int) -> Pair:
    given = vector.given
    total = given["allocatableMemory"]
    policy = policy_for(
        minor,
        capacity={} if total is None else {"memory": total},
        host={"hierarchy": "v1"},
        gates={"QOSReserved": True},
        qos_reserved=given["percent"],
    )
    qos_totals = QosTotals(given["guaranteedRequests"], given["burstableRequests"])
    found = {
        tier: read_config(pairs(qos_cgroup_files(policy, qos_totals, tier).settings())).memory
        for tier in ("burstable", "besteffort")
    }
    return found, vector.expected


@runs("qos_reserve_retry")
def reserve_retry(vector: Vector, _: int) -> Pair:
    usage = vector.given["usage"]
    found = {
        tier: memory.retried(limit, usage[tier]) for tier, limit in vector.given["desired"].items()
    }
    return found, vector.expected


def _reserved(vector: Vector, minor: int, hierarchy: str) -> Config:
    given = vector.given
    held = quantities(given.get("resources", given.get("reserved")))
    policy = policy_for(
        minor,
        host={"hierarchy": hierarchy},
        gates={"MemoryQoS": given.get("memoryQoSGate", False)},
        system_reserved=held,
    )
    rows = reserved_files(policy, "system-reserved", given["compressibleOnly"]).settings()
    return read_config(pairs(rows))


@runs("node_cgroup_config", "reserved_cgroup_config")
def reserved_config(vector: Vector, minor: int) -> Pair:
    found = spelled(_reserved(vector, minor, "v1"))
    unified = _reserved(vector, minor, "v2").unified
    if unified:
        found["unified"] = unified
    return found or None, vector.expected


@runs("hugepage_unit_size")
def page_text(vector: Vector, _: int) -> Pair:
    try:
        return size_text(vector.given["bytes"]), vector.expected
    except ValueError:
        return "error", vector.expected


@runs("hugepage_size_from_name")
def page_size(vector: Vector, _: int) -> Pair:
    """The kubelet goes on with ``Value()`` of the size; ours gives that."""
    found = size_of_resource(vector.given["name"])
    wanted = vector.expected
    value = None if wanted == "error" else quantities({"size": wanted})["size"].value
    return found, value


@runs("kubelet_cgroup_update_writes")
def update_writes(vector: Vector, minor: int) -> Pair:
    given = vector.given
    host = {
        "hugepage_sizes": tuple(SIZES[text] for text in given["hostHugePageSizes"]),
        "controllers": frozenset(given["controllers"]),
        "hugetlb_rsvd": given["rsvdFiles"],
    }
    policy = policy_for(minor, host=host, driver=given["driver"])
    config = config_of(given["config"])
    assert config is not None
    return files(update_settings(policy, config)), vector.expected
