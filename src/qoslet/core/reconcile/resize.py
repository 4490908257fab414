"""In-place resize: whether an edited resource block may be applied to a running pod, and in which
order it is written.

Source: kubelet pkg/kubelet/allocation/allocation_manager.go, kuberuntime_manager.go
doPodResizeAction (1.36); KEP-1287.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.aggregate import requests
from qoslet.core.api.pod import Container, Pod, QosClass, Quantities, Resources, Role
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.node.node import allocatable
from qoslet.core.quantity import ZERO, QuantityError, bytes_text, canonical, parse
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.step_order import partition, raises
from qoslet.core.resources.cri_resources import exclusive
from qoslet.core.resources.node_policy import NodePolicy

ResizeState = Literal["", "Proposed", "InProgress", "Deferred", "Infeasible", "Done"]
"""The kubelet's states of an in-place resize (KEP-1287); empty: there was none."""
RESOURCES = ("memory", "cpu")
"""In the order of a resize."""


class ResizeDecision(Struct, frozen=True):
    """The decision about a resize, and the reason if it is not allowed now."""

    state: ResizeState
    reason: str = ""


ALLOWED = ResizeDecision("InProgress")


def resizable_fields(pod: Pod) -> tuple[object, ...]:
    """The fields that a resize may change: all resources of a pod."""
    containers = tuple((container.name, container.resources) for container in pod.containers)
    return containers, pod.resources, pod.overhead


def encode_allocation(pod: Pod) -> str:
    """The allocated resources of a pod as text, for a runtime to store."""
    containers = {container.name: _texts(container.resources) for container in pod.containers}
    level = None if pod.resources is None else _texts(pod.resources)
    return msgspec.json.encode((containers, level)).decode()


def decode_allocation(pod: Pod, memo: str) -> Pod:
    """``pod`` with the allocated resources in ``memo``; unchanged if ``memo`` does not have these
    containers."""
    try:
        allocated, level = msgspec.json.decode(memo, type=_Memo)
        containers = tuple(
            replace(container, resources=_resources(allocated[container.name]))
            for container in pod.containers
        )
        resources = None if level is None else _resources(level)
    except (msgspec.MsgspecError, QuantityError, KeyError):
        return pod
    return replace(pod, containers=containers, resources=resources)


def allocated_pod(key: str, uid: str, roles: Mapping[str, Role], memo: str) -> Pod | None:
    """A pod of which only what was allocated to it is known; None where ``memo`` does not tell."""
    namespace, _, name = key.partition("/")
    known = tuple(Container(one, role, one) for one, role in roles.items())
    pod = Pod(namespace, name, uid, key, known)
    found = decode_allocation(pod, memo)
    return None if found is pod or not known else found


_Amounts = dict[str, str]
_Memo = tuple[dict[str, tuple[_Amounts, _Amounts]], tuple[_Amounts, _Amounts] | None]


def _texts(resources: Resources) -> tuple[_Amounts, _Amounts]:
    """Requests and limits as text."""
    return (
        {name: canonical(amount) for name, amount in resources.requests.items()},
        {name: canonical(amount) for name, amount in resources.limits.items()},
    )


def _resources(texts: tuple[_Amounts, _Amounts]) -> Resources:
    """The reverse of ``_texts``. Raises QuantityError."""
    return Resources(
        {name: parse(text) for name, text in texts[0].items()},
        {name: parse(text) for name, text in texts[1].items()},
    )


def check_resize(
    policy: NodePolicy,
    old: tuple[Pod, QosClass],
    new: tuple[Pod, QosClass],
    others: Mapping[str, int],
) -> ResizeDecision:
    """Whether ``old`` may be resized to ``new`` now. ``others`` are the requests of all other pods:
    millicores of ``cpu``, bytes of ``memory``."""
    if old[1] != new[1]:
        return ResizeDecision("Infeasible", f"the QoS class would change from {old[1]} to {new[1]}")
    reason = _managed(policy, old, new[0])
    if reason:
        return ResizeDecision("Infeasible", reason)
    had, gets = amounts(policy, old[0]), amounts(policy, new[0])
    most = _allocatable(policy)
    for name in RESOURCES:
        if name in most and gets[name] > most[name] and gets[name] > had[name]:
            return ResizeDecision(
                "Infeasible",
                f"{name}: {_amount_text(name, gets[name])} requested, the node has {_amount_text(name, most[name])}",
            )
    for name in RESOURCES:
        used = others.get(name, 0)
        if name in most and gets[name] > had[name] and used + gets[name] > most[name]:
            return ResizeDecision(
                "Deferred",
                f"{name}: {_amount_text(name, gets[name])} requested, other pods request "
                f"{_amount_text(name, used)} of {_amount_text(name, most[name])}",
            )
    return ALLOWED


def _managed(policy: NodePolicy, old: tuple[Pod, QosClass], new: Pod) -> str:
    """Why a pod with exclusive CPUs or reserved memory cannot be resized; empty if it can."""
    pod, qos = old
    kubelet = policy.node.kubelet
    if qos != "Guaranteed":
        return ""
    pinned = any(
        exclusive(policy, version, container, qos)
        for version in (pod, new)
        for container in version.containers
    )
    if pinned and _differs(pod, new, "cpu"):
        return "containers with exclusive CPUs (static CPU manager) cannot be resized"
    if getattr(kubelet, "memory_manager_policy", "None") == "Static" and _differs(
        pod, new, "memory"
    ):
        return "Guaranteed pods cannot be resized with the static memory manager"
    return ""


def _differs(old: Pod, new: Pod, name: str) -> bool:
    """Whether a resource of any container, or of the pod, differs."""
    return _of(old, name) != _of(new, name)


def _of(pod: Pod, name: str) -> list[object]:
    blocks: list[Resources | None] = [container.resources for container in pod.containers]
    return [
        (block.requests.get(name), block.limits.get(name)) if block is not None else None
        for block in (*blocks, pod.resources)
    ]


def amounts(policy: NodePolicy, pod: Pod) -> dict[str, int]:
    """The requests of a pod in millicores and bytes."""
    sums = requests(pod, policy.sum_rules)
    return {"cpu": sums.get("cpu", ZERO).milli, "memory": sums.get("memory", ZERO).value}


def _allocatable(policy: NodePolicy) -> dict[str, int]:
    """The node's allocatable resources, as far as they are known."""
    most: Quantities = allocatable(policy.node)
    amounts = {}
    if "cpu" in most:
        amounts["cpu"] = most["cpu"].milli
    if "memory" in most:
        amounts["memory"] = most["memory"].value
    return amounts


def _amount_text(name: str, amount: int) -> str:
    """An amount with its unit."""
    return f"{amount}m" if name == "cpu" else bytes_text(amount)


def restarting(old: Pod, new: Pod, policies: Iterable[tuple[str, str]]) -> list[str]:
    """The containers to restart, because their ``resizePolicy`` demands it for a changed resource.
    ``policies`` are pairs of container and resource."""
    before = {container.name: container for container in old.containers}
    after = {container.name: container for container in new.containers}
    return list(
        dict.fromkeys(
            name
            for name, resource in policies
            if name in before and name in after and _resized(before[name], after[name], resource)
        )
    )


def _resized(old: Container, new: Container, name: str) -> bool:
    return (old.resources.requests.get(name), old.resources.limits.get(name)) != (
        new.resources.requests.get(name),
        new.resources.limits.get(name),
    )


_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
           "memory.swap.max", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")  # fmt: skip
"""Files of limits; the two files of a v1 bandwidth go together."""


def resize_phases(rows: Sequence[Difference], tops: Sequence[str]) -> list[list[Difference]]:
    """The differences of one pod in a kubelet's order: new cgroups first, then memory before CPU.
    For each resource: raise the pod's limit, then its request; lower containers, then raise others;
    lower the pod's request, then its limit."""
    new, changed = partition(rows, lambda row: row.verdict != "differs")
    absent = {row.path for row in new if row.verdict == "absent"}
    values_of_new, changed = partition(changed, lambda row: row.path in absent)
    phases = [new + values_of_new]
    for resource in (*RESOURCES, ""):
        of_resource = [row for row in changed if _resource(row) == resource]
        of_pod, of_containers = partition(of_resource, lambda row: row.path in tops)
        raised, lowered = partition(of_pod, raises)
        raised_limits, raised_requests = partition(raised, _is_limit)
        lowered_limits, lowered_requests = partition(lowered, _is_limit)
        raised_containers, lowered_containers = partition(of_containers, raises)
        phases += [
            raised_limits,
            raised_requests,
            lowered_containers,
            raised_containers,
            lowered_requests,
            lowered_limits,
        ]
    return [phase for phase in phases if phase]


def _resource(row: Difference) -> str:
    """``memory``, ``cpu`` or empty for anything else."""
    name = controller(row.file) if row.file else ""
    return name if name in RESOURCES else ""


def _is_limit(row: Difference) -> bool:
    """Whether the file holds a limit; others hold requests."""
    return row.file in _LIMITS
