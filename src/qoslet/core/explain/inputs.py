"""The fields that a value is computed from: their text, their place and their number."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from qoslet.core.api.aggregate import requests
from qoslet.core.api.pod import Container, Pod, Quantities
from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.explain.annotations import annotation_facts
from qoslet.core.explain.fact import Fact
from qoslet.core.node.documents.kubelet_fields import in_force
from qoslet.core.node.node import Kubelet, Node
from qoslet.core.quantity import Quantity
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.resources.memory_qos import protects
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.pod_template import as_release_sees, without_copied_requests
from qoslet.core.rules.hugetlb import PREFIX, size_of_resource, size_text

MOST_PODS = 10
"""The most pods that are listed one by one under a sum."""

_BOTH = ("requests", "limits")
_ASKED: dict[str, tuple[str, tuple[str, ...]]] = {
    "cpu.weight": ("cpu", ("requests",)),
    "cpu.shares": ("cpu", ("requests",)),
    "cpu.max": ("cpu", ("limits",)),
    "cpu.cfs_quota_us": ("cpu", ("limits",)),
    "cpu.cfs_period_us": ("cpu", ()),
    "memory.max": ("memory", ("limits",)),
    "memory.limit_in_bytes": ("memory", ("limits",)),
    "memory.min": ("memory", ("requests",)),
    "memory.low": ("memory", ("requests",)),
    "memory.high": ("memory", _BOTH),
    "memory.swap.max": ("memory", _BOTH),
    "memory.memsw.limit_in_bytes": ("memory", _BOTH),
    "oom_score_adj": ("memory", ("requests",)),
    "cpuset.cpus": ("cpu", _BOTH),
    "cpuset.mems": ("memory", ("requests",)),
    "cpu_maximum": ("cpu", ("limits",)),
    "cpu_count": ("cpu", ("limits",)),
    "cpu_shares": ("cpu", _BOTH),
    "memory_limit_in_bytes": ("memory", ("limits",)),
}
"""File to the resource and the sides of ``resources`` that decide about it."""

_NODE_FIELDS: dict[str, tuple[str, ...]] = {
    "cpu.max": ("cpuCFSQuota", "cpuCFSQuotaPeriod"),
    "cpu.cfs_quota_us": ("cpuCFSQuota", "cpuCFSQuotaPeriod"),
    "cpu.cfs_period_us": ("cpuCFSQuota", "cpuCFSQuotaPeriod"),
    "memory.min": ("featureGates.MemoryQoS", "memoryReservationPolicy"),
    "memory.low": ("featureGates.MemoryQoS", "memoryReservationPolicy"),
    "memory.high": ("featureGates.MemoryQoS", "memoryThrottlingFactor", "host.pageSize"),
    "memory.swap.max": ("memorySwap", "capacity.memory", "swap"),
    "memory.memsw.limit_in_bytes": ("memorySwap",),
    "memory.oom.group": ("singleProcessOOMKill",),
    "oom_score_adj": ("capacity.memory",),
    "pids.max": ("podPidsLimit",),
    "cpuset.cpus": (
        "cpuManagerPolicy",
        "cpuManagerPolicyOptions",
        "reservedSystemCPUs",
        "topologyManagerPolicy",
        "host.cpus",
        "topology",
    ),
    "cpuset.mems": ("memoryManagerPolicy", "reservedMemory", "topologyManagerPolicy", "numa"),
    "cpu_maximum": ("capacity.cpu",),
    "cpu_shares": ("capacity.cpu",),
}
"""File to the node's fields that decide about it in pods and containers."""


def amount_of(resource: str, quantity: Quantity) -> str:
    """The number that rules compute with: millicores, else whole units."""
    return f"{quantity.milli}m" if resource == "cpu" else str(quantity.value)


def resource_of(file: str) -> tuple[str, tuple[str, ...]] | None:
    """The resource behind a file, and the sides of ``resources`` that count."""
    if file.startswith("hugetlb."):
        return PREFIX + file.split(".")[1].replace("B", "i"), _BOTH
    return _ASKED.get(file)


def _same(resource: str, name: str) -> bool:
    """Whether ``name`` is the resource; page sizes are compared by their bytes."""
    if resource == name:
        return True
    if not (resource.startswith(PREFIX) and name.startswith(PREFIX)):
        return False
    size = size_of_resource(name)
    try:
        return size is not None and size_text(size) == resource.removeprefix(PREFIX).replace(
            "i", "B"
        )
    except ValueError:
        return False


def _given(
    pod: Pod, field: str, amounts: Quantities, resource: str, copied: tuple[str, ...]
) -> Iterator[Fact]:
    cause = "copied from the limit" if "requests" in field else "the containers' limits together"
    for name, quantity in amounts.items():
        if _same(resource, name):
            origin = f" ({cause})" if name in copied else ""
            yield Fact(
                f"{field}.{name}{origin}", str(quantity), amount_of(name, quantity), pod.where
            )


def _container(pod: Pod, container: Container, file: str) -> Iterator[Fact]:
    resource_and_sides = resource_of(file)
    if resource_and_sides is None:
        return
    resource, sides = resource_and_sides
    facts: list[Fact] = []
    for side in sides:
        amounts = getattr(container.resources, side)
        copied = container.defaulted if side == "requests" else ()
        facts += _given(pod, f"{container.field}.resources.{side}", amounts, resource, copied)
    if not facts and file in ("cpu.weight", "cpu.shares"):
        limits = container.resources.limits
        facts += _given(pod, f"{container.field}.resources.limits", limits, resource, ())
    yield from facts


def _pod_level(pod: Pod, file: str) -> Iterator[Fact]:
    resource_and_sides = resource_of(file)
    if resource_and_sides is None or pod.resources is None:
        return
    resource, sides = resource_and_sides
    for side in sides:
        amounts = getattr(pod.resources, side)
        given = pod.resources if pod.written is None else pod.written
        summed = tuple(name for name in amounts if name not in given.limits)
        copied = pod.defaulted if side == "requests" else summed
        yield from _given(pod, f"spec.resources.{side}", amounts, resource, copied)


def _pod(pod: Pod, file: str) -> Iterator[Fact]:
    for container in pod.containers:
        if container.role != "ephemeral":
            yield from _container(pod, container, file)
    yield from _pod_level(pod, file)
    resource_and_sides = resource_of(file)
    if resource_and_sides is not None:
        yield from _given(pod, "spec.overhead", pod.overhead, resource_and_sides[0], ())


def _of_class(
    plan: Plan, policy: NodePolicy, file: str, classes: tuple[str, ...]
) -> Iterator[Fact]:
    resource_and_sides = resource_of(file)
    if resource_and_sides is None or resource_and_sides[0] not in ("cpu", "memory"):
        return
    resource, unlisted = resource_and_sides[0], 0
    counted = (row for row in plan.pods if row.qos in classes)
    if file in PROTECTION:
        counted = (row for row in counted if protects(policy, row.pod.memory))
    for number, row in enumerate(counted):
        if number >= MOST_PODS:
            unlisted += 1
            continue
        quantity = requests(as_release_sees(policy, row.pod), policy.sum_rules).get(resource)
        if quantity is not None:
            field = f"requests.{resource} of {row.qos} pod {row.pod.key}"
            file = row.pod.where.rpartition(": ")[0] or row.pod.where
            yield Fact(field, str(quantity), amount_of(resource, quantity), file)
    if unlisted:
        yield Fact(f"requests.{resource} of {unlisted} other pods", "", "", "")


def origin(node: Node, field: str) -> str:
    """Where a node's field, or the field that contains it, comes from."""
    while field:
        if field in node.origins:
            return node.origins[field]
        field = field.rpartition(".")[0]
    return "default"


def _known(policy: NodePolicy) -> dict[str, object]:
    node, kubelet = policy.node, policy.node.kubelet
    return {
        "cpuCFSQuota": kubelet.cpu_cfs_quota,
        "cpuCFSQuotaPeriod": f"{policy.period_us}us",
        "memoryReservationPolicy": policy.reservation,
        "memoryThrottlingFactor": "unset" if policy.factor is None else policy.factor,
        "memorySwap": policy.swap_behavior or "NoSwap",
        "singleProcessOOMKill": kubelet.single_process_oom_kill,
        "podPidsLimit": kubelet.pod_pids_limit,
        "cpuManagerPolicy": kubelet.cpu_manager_policy,
        **_placing(node),
        "enforceNodeAllocatable": ",".join(kubelet.enforce_node_allocatable),
        "host.pageSize": node.host.page_size,
        "host.cpus": policy.cpus,
        "swap": node.swap,
        "qosReserved": f"memory={kubelet.qos_reserved}%",
    }


def _placing(node: Node) -> dict[str, object]:
    """The fields of the CPU, memory and topology managers; None for unset ones."""
    kubelet, layout = node.kubelet, node.host.layout
    options = (f"{name}={str(on).lower()}" for name, on in kubelet.cpu_manager_options.items())
    reserved = (
        f"node {number}: {', '.join(f'{name} {amount}' for name, amount in limits.items())}"
        for number, limits in sorted(kubelet.reserved_memory.items())
    )
    nodes = (
        f"node {numa.id}: CPUs {numa.cpus or 'none'}, {numa.memory}" for numa in node.host.numa
    )
    shape = None
    if layout is not None:
        shape = f"{len(layout.sockets) or 1} sockets, {len(layout.cores)} cores"
    return {
        "cpuManagerPolicyOptions": ", ".join(options) or None,
        "reservedSystemCPUs": kubelet.reserved_system_cpus or None,
        "memoryManagerPolicy": kubelet.memory_manager_policy,
        "reservedMemory": "; ".join(reserved) or None,
        "topologyManagerPolicy": _policy(kubelet),
        "numa": "; ".join(nodes) or None,
        "topology": shape,
    }


def _policy(kubelet: Kubelet) -> str | None:
    if kubelet.topology_manager_policy == "none":
        return None
    return f"{kubelet.topology_manager_policy} by {kubelet.topology_manager_scope}"


def node_fact(policy: NodePolicy, field: str) -> Fact | None:
    """A field of the node; None if it has no value."""
    node = policy.node
    top, _, name = field.partition(".")
    if top == "featureGates":
        text = str(policy.gate(name)).lower()
        if name == "MemoryQoS" and node.profile.memory_qos_forced:
            variant = node.profile.memory_qos
            return Fact("memoryQos", variant, variant, origin(node, "memoryQos"))
        return Fact(field, text, text, origin(node, field))
    lists = {
        "capacity": node.capacity,
        "systemReserved": node.kubelet.system_reserved,
        "kubeReserved": node.kubelet.kube_reserved,
    }
    if top in lists:
        quantity = lists[top].get(name)
        if quantity is None:
            return None
        return Fact(field, str(quantity), amount_of(name, quantity), origin(node, field))
    known = _known(policy).get(field)
    if known is None or not in_force(field, node.profile):
        return None
    text = str(known).lower() if isinstance(known, bool) else str(known)
    return Fact(field, text, text, origin(node, field))


def _left_for_pods(resource: str) -> tuple[str, ...]:
    return tuple(f"{top}.{resource}" for top in ("capacity", "systemReserved", "kubeReserved"))


def _node_level(cgroup: Cgroup, file: str, rule: str) -> tuple[str, ...]:
    if rule.startswith(("memory.min.sum", "memory.low.sum")):
        return _NODE_FIELDS[file]
    resource = "pid" if file == "pids.max" else (resource_of(file) or ("", ()))[0]
    if not cgroup.name.endswith("kubepods"):
        return tuple(f"{top}.{resource}" for top in ("systemReserved", "kubeReserved"))
    if file in PROTECTION:
        return _NODE_FIELDS[file]
    if file == "cpuset.cpus":
        return "cpuManagerPolicy", "host.cpus"
    return (*_left_for_pods(resource), "enforceNodeAllocatable")


def _fields(cgroup: Cgroup, file: str, rule: str, inputs: tuple[object, ...]) -> tuple[str, ...]:
    if cgroup.level == "node":
        return _node_level(cgroup, file, rule)
    if rule.startswith("memory.limit.reserve"):
        return ("featureGates.QOSReserved", "qosReserved", *_left_for_pods("memory"))
    fields = _NODE_FIELDS.get(file, ())
    if file == "memory.high" and len(inputs) > 1 and not inputs[1]:
        fields = (*fields, *_left_for_pods("memory"))
    if file == "memory.swap.max" and rule != "swap.limited":
        fields = ("memorySwap",)
    return fields


def facts(
    plan: Plan, policy: NodePolicy, cgroup: Cgroup, file: str, rule: str, inputs: tuple[object, ...]
) -> tuple[Fact, ...]:
    """All fields that a value is computed from, the pod's first."""
    result: list[Fact] = []
    if cgroup.pod is not None and policy.node.profile.kubernetes == "design":
        result += _uncounted(policy, cgroup, file)
        cgroup = _as_designed(policy, cgroup)
    if cgroup.level in ("node", "qos"):
        summed = file.startswith(PROTECTION) or cgroup.level == "qos"
        if summed:
            result += _of_class(plan, policy, file, _classes(cgroup, file, rule))
    elif cgroup.container is not None and cgroup.pod is not None:
        result += _container(cgroup.pod, cgroup.container, file)
        if not result or file == "oom_score_adj":
            result += _pod_level(cgroup.pod, file)
    elif cgroup.pod is not None and cgroup.level == "pod":
        result += _pod(cgroup.pod, file)
    if cgroup.pod is not None:
        result += annotation_facts(cgroup.pod, file)
    for field in _fields(cgroup, file, rule, inputs):
        fact = node_fact(policy, field)
        if fact is not None:
            result.append(fact)
    if policy.memory_qos == "design" and cgroup.name.endswith("/kubepods") and file == "memory.min":
        enforced = node_fact(policy, "enforceNodeAllocatable")
        result += [] if enforced is None else [enforced]
    return tuple(result)


def _as_designed(policy: NodePolicy, cgroup: Cgroup) -> Cgroup:
    """A cgroup of a pod as the documents count it: copied memory requests, init containers and the
    overhead are in no sum."""
    assert cgroup.pod is not None
    pod = as_release_sees(policy, cgroup.pod)
    regular = tuple(container for container in pod.containers if container.role == "regular")
    return replace(cgroup, pod=replace(pod, containers=regular, overhead={}))


def _uncounted(policy: NodePolicy, cgroup: Cgroup, file: str) -> Iterator[Fact]:
    """The memory requests that the documents do not copy from the limits."""
    if cgroup.pod is None or "requests" not in _ASKED.get(file, ("", ()))[1]:
        return
    if _ASKED[file][0] != "memory":
        return
    counted, own = without_copied_requests(policy, cgroup.pod).containers, cgroup.container
    for container in cgroup.pod.containers:
        named = container.role == "regular" if own is None else container.name == own.name
        if named and container not in counted:
            field = f"{container.field}.resources.requests.memory"
            note = "only the limit is set; an API server would copy it"
            yield Fact(f"{field} ({note})", "0", "0", cgroup.pod.where)


def _classes(cgroup: Cgroup, file: str, rule: str) -> tuple[str, ...]:
    """The classes whose requests a sum counts."""
    if cgroup.name.endswith("/besteffort") and not rule.startswith("memory.limit.reserve"):
        return ()
    if rule.startswith("memory.limit.reserve"):
        return (
            ("Guaranteed",) if cgroup.name.endswith("/burstable") else ("Guaranteed", "Burstable")
        )
    if rule == "memory.min.sum.qoslet":
        return ("Guaranteed",)
    if cgroup.level == "node" and (file == "memory.min" or rule == "memory.low.sum.qoslet"):
        return ("Guaranteed", "Burstable")
    return ("Burstable",)
