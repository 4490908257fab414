"""How the vectors of CRI messages are run: containers, sandboxes, swap, Memory QoS, scores."""

from __future__ import annotations

from typing import Any

from qoslet.core.api.pod import Pod, QosClass
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.quantity import parse
from qoslet.core.resources.cri_resources import CriResources, oom_score, swap_of
from qoslet.core.resources.memory_qos import container_rows
from qoslet.core.resources.not_written import NotWritten
from qoslet.core.rules import oom, swap
from tests.core.vectors.fixtures import SIZES, Json, node_of, pod_of, policy_for
from tests.core.vectors.vectors import Vector, runs

Pair = tuple[object, object]


def message(sent: CriResources, wanted: Json) -> dict[str, Any]:
    """The fields of a message that a vector names."""
    found: dict[str, Any] = {}
    for name in wanted:
        if name == "unified":
            found[name] = {entry.file: entry.value for entry in sent.unified} or None
        else:
            found[name] = getattr(sent, name)
    return found


def _sent(pod: Pod, planner: Planner, name: str | None = None) -> CriResources:
    container = next(c for c in pod.containers if name in (None, c.name))
    return planner.message(pod, container)


@runs("linux_container_cpu_memory")
def cpu_memory(vector: Vector, minor: int) -> Pair:
    given = vector.given
    limits = {"cpu": given["cpuLimit"], "memory": given["memoryLimit"]}
    request = {} if given["cpuRequest"] is None else {"cpu": given["cpuRequest"]}
    pod = pod_of({"containers": [{"name": "c", "requests": request, "limits": limits}]})
    planner = Planner(
        node_of(
            minor,
            host={"hierarchy": given["cgroup"]},
            single_process_oom_kill=given["singleProcessOOMKill"],
            cpu_cfs_quota=given["cpuCFSQuota"],
        )
    )
    return message(_sent(pod, planner), vector.expected), vector.expected


@runs("linux_container_resources")
def container_resources(vector: Vector, minor: int) -> Pair:
    given = vector.given
    assert not given["exclusiveCPUs"]
    pod = pod_of({"containers": [given["container"]], "resources": given["podResources"]})
    planner = Planner(node_of(minor, gates=given["gates"], cpu_cfs_quota=given["cpuCFSQuota"]))
    return message(_sent(pod, planner), vector.expected), vector.expected


@runs("linux_container_resources_full")
def full_resources(vector: Vector, minor: int) -> Pair:
    given = vector.given
    pod = pod_of(given["pod"])
    node = node_of(
        minor,
        capacity={"memory": given["memoryCapacity"]},
        host={"hierarchy": given["cgroup"], "swap_controller": given["swapController"]},
        single_process_oom_kill=given["singleProcessOOMKill"],
        cpu_cfs_quota=given["cpuCFSQuota"],
    )
    sent = _sent(pod, Planner(node), given["container"])
    return message(sent, vector.expected), vector.expected


@runs("container_hugepage_limits")
def hugepages(vector: Vector, minor: int) -> Pair:
    given = vector.given
    level = {"limits": given["podLimits"]} if given["podLimits"] else None
    pod = pod_of(
        {
            "containers": [{"name": "c", "limits": given["containerLimits"]}],
            "resources": level,
        }
    )
    sizes = tuple(SIZES[text] for text in given["hostPageSizes"])
    sent = _sent(pod, Planner(node_of(minor, host={"hugepage_sizes": sizes})))
    return dict(sent.hugepage_limits), vector.expected


@runs("sandbox_resources")
def sandbox(vector: Vector, minor: int) -> Pair:
    given = vector.given
    planner = Planner(
        node_of(
            minor,
            host={"hierarchy": given["cgroup"]},
            single_process_oom_kill=given["singleProcessOOMKill"],
            cpu_cfs_quota=given["cpuCFSQuota"],
        )
    )
    made = planner.sandbox_messages(pod_of(given["pod"]))
    found = {
        name: {} if sent is None else message(sent, vector.expected[name])
        for name, sent in zip(("resources", "overhead"), made, strict=True)
    }
    return found, vector.expected


def _bytes(container: Json, kind: str) -> int:
    return parse(container.get(kind, {}).get("memory", "0")).value


@runs("container_swap_behavior")
def swap_behavior(vector: Vector, minor: int) -> Pair:
    given = vector.given
    policy = policy_for(
        minor,
        capacity={"memory": "40Gi"},
        swap=5 << 30,
        host={
            "hierarchy": given["cgroup"] or "v2",
            "swap_controller": given["swapController"] is not False,
        },
        swap_behavior=given["swapBehavior"],
    )
    pod = pod_of({"containers": [given["container"]]}, critical=given["critical"])
    request, limit = (_bytes(given["container"], kind) for kind in ("requests", "limits"))
    _, _, why = swap_of(policy, pod, given["qosClass"] or "Burstable", request, limit)
    return "LimitedSwap" if why[0] == "swap.limited" else "NoSwap", vector.expected


@runs("container_swap_limit")
def swap_limit(vector: Vector, minor: int) -> Pair:
    given = vector.given
    node = node_of(
        minor,
        capacity={"memory": given["memoryCapacity"]},
        swap=given["swapCapacity"],
        host={"hierarchy": given["cgroup"], "swap_controller": given["swapController"]},
        swap_behavior=given["swapBehavior"],
    )
    planner = Planner(node)
    pod = pod_of({"containers": given["containers"]}, critical=given["critical"])
    assert planner.templates.of(pod).qos == given["qosClass"]
    found = {}
    for container in pod.containers:
        sent = planner.message(pod, container)
        unified = {entry.file: entry.value for entry in sent.unified}
        field = "memory_swap_limit_in_bytes"
        every = {"memory.swap.max": unified.get("memory.swap.max"), field: getattr(sent, field)}
        found[container.name] = {name: every[name] for name in vector.expected[container.name]}
    return found, vector.expected


@runs("limited_swap_amount")
def limited_swap(vector: Vector, _: int) -> Pair:
    given = vector.given
    names = ("containerMemoryRequest", "memoryCapacity", "swapCapacity")
    found = swap.limited_swap(*(given[name] for name in names))
    return "error" if found is None else found, vector.expected


@runs("memory_swap_limit_legacy")
def legacy_swap(vector: Vector, minor: int) -> Pair:
    given = vector.given
    policy = policy_for(minor, gates={"NodeSwap": True}, swap_behavior=given["swapBehavior"] or "")
    _, found, _ = swap_of(policy, pod_of({}), "Burstable", 0, given["memoryLimit"])
    return found, vector.expected


def _class_of(request: int, limit: int) -> QosClass:
    if not request and not limit:
        return "BestEffort"
    return "Guaranteed" if request == limit else "Burstable"


def memory_qos(vector: Vector, minor: int) -> dict[str, str]:
    """The entries of Memory QoS for a container of a vector."""
    given = vector.given
    policy = policy_for(
        minor,
        capacity={"memory": given["nodeAllocatableMemory"]},
        host={"page_size": given["pageSize"]},
        gates={"MemoryQoS": True},
        memory_throttling_factor=given["factor"],
        memory_reservation_policy=given.get("memoryReservationPolicy") or "None",
    )
    request, limit = given["memoryRequest"], given["memoryLimit"]
    qos = given.get("podQOS") or _class_of(request, limit)
    rows = container_rows(policy, qos, request, limit)
    return {row[0]: row[1] for row in rows if not isinstance(row, NotWritten)}


@runs("memory_high")
def memory_high(vector: Vector, minor: int) -> Pair:
    found = memory_qos(vector, minor).get("memory.high")
    return None if found is None else int(found), vector.expected


@runs("container_memory_qos_unified")
def memory_qos_unified(vector: Vector, minor: int) -> Pair:
    return memory_qos(vector, minor), vector.expected


@runs("oom_score_adj")
def score(vector: Vector, minor: int) -> Pair:
    given, wanted = vector.given, vector.expected
    planner = Planner(
        node_of(
            minor,
            capacity={"memory": given["memoryCapacity"]},
            gates={"PodLevelResources": given["podLevelResourcesGate"]},
        )
    )
    pod = pod_of(given["pod"])
    container = next(c for c in pod.containers if c.name == given["container"])
    found, _ = oom_score(planner.policy, pod, container, planner.templates.of(pod).qos)
    assert wanted["min"] <= found <= wanted["max"]
    return found, wanted["formulaValue"]


@runs("oom_score_adj_constant")
def constant(vector: Vector, minor: int) -> Pair:
    guaranteed = policy_for(minor).choices.guaranteed_oom
    found = {
        "guaranteed": guaranteed,
        "besteffort": oom.BEST_EFFORT,
        "burstable-min": oom.clamped(-(10**6), guaranteed),
        "burstable-max": oom.clamped(oom.burstable(0, 1), guaranteed),
    }
    return found[vector.id.split("/", 1)[1]], vector.expected
