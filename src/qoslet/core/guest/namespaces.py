"""A policy for pods of some namespaces: how all others are planned.

Their requests count in no protection above them, nothing of Memory QoS is planned for them, and the
guard leaves them alone, whatever their annotations ask for.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from qoslet.core.api.memory_annotations import MemoryPolicy
from qoslet.core.api.pod import Pod
from qoslet.core.cgroup.interface_files import MEMORY_QOS
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.node.node import Node
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.resources.node_policy import node_policy
from qoslet.errors import CannotDo

_OUTSIDE = MemoryPolicy(protection=False, guard="off")
_DROPPED = (*MEMORY_QOS, "memory.oom.group")


def confined(pods: Sequence[Pod], policy: GuestPolicy, node: Node) -> Sequence[Pod]:
    """The pods as they are planned under a policy; ``node`` without what the policy says of Memory QoS.
    Raises CannotDo where the kubelet writes Memory QoS of its own and the policy names another one."""
    if policy.namespaces is None:
        return pods
    own = node_policy(node).memory_qos
    if own == "off":
        return [
            pod if policy.covers(pod.namespace) else replace(pod, memory=_OUTSIDE) for pod in pods
        ]
    if policy.memory_qos not in (None, own) or policy.throttling_factor is not None:
        raise CannotDo(
            f"the kubelet writes Memory QoS {own} for the pods of all namespaces",
            where="policy: namespaces",
            hint="leave memoryQos and memoryThrottlingFactor out, or namespaces",
        )
    return [
        pod
        if policy.covers(pod.namespace)
        else replace(pod, memory=replace(pod.memory, guard="off"))
        for pod in pods
    ]


def without_others(plan: Plan, policy: GuestPolicy, node: Node) -> Plan:
    """A plan of ``confined`` pods without Memory QoS of the others, which the kubelet does not write."""
    if policy.namespaces is None or node_policy(node).memory_qos != "off":
        return plan
    cgroups = tuple(
        one
        if one.pod is None or policy.covers(one.pod.namespace)
        else replace(one, settings=tuple(row for row in one.settings if row.file not in _DROPPED))
        for one in plan.cgroups
    )
    return replace(plan, cgroups=cgroups)
