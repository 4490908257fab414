"""What an in-place resize leaves in the cgroup of a pod, and one of its own resources in its containers.

Source: kuberuntime_manager.go doPodResizeAction, which writes no CPU request that it reads from the cgroup; seen beside a kubelet 1.36.2 (InPlacePodLevelResourcesVerticalScaling): it sends the new pod-level
limits to containers without limits of their own, with a cpu request of 0, and nothing to ephemeral ones;
with Memory QoS memory.high, too, which containers without request and limit do not get at their start.
"""

from __future__ import annotations

from qoslet.core.audit.live import LiveCgroup
from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.node.node import Node
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Cgroup, Setting
from qoslet.core.resources.node_policy import node_policy
from qoslet.core.rules.cpu import MIN_SHARES, shares_of_weight, weight_linear, weight_quadratic
from qoslet.core.rules.memory import high_1_27

_NOTHING = {
    "cpu.shares": (str(MIN_SHARES),),
    "cpu.weight": (str(weight_linear(MIN_SHARES)), str(weight_quadratic(MIN_SHARES))),
}
"""What a request of 0 is."""


_OF_PODS = frozenset(
    (
        *("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes"),
        *("cpu.weight", "cpu.max", "memory.max"),
    )
)
"""What a resize writes to the cgroup of a pod."""

LEFT_HIGH = "left by an in-place resize of pod-level resources, which sends it for their limit"


def left_by_resize(cgroup: Cgroup, setting: Setting, live: LiveCgroup, node: Node) -> str | None:
    """What a resize left in a file of a pod or container, as a sentence; None: nothing."""
    pod, container, found = cgroup.pod, cgroup.container, live.values.get(setting.file, "")
    if cgroup.level == "pod" and pod is not None and pod.was_changed:
        return _weight_of_same_shares(setting, found) or _protection_of_before(setting, found, node)
    if pod is None or container is None or pod.resources is None or not pod.was_changed:
        return None
    if container.role == "ephemeral":
        return "as when it started: a resize of the pod does not reach ephemeral containers"
    if "cpu" not in container.resources.requests and found in _NOTHING.get(setting.file, ()):
        return "left by an in-place resize of pod-level resources, which sends a request of 0"
    if setting.file == "memory.high" and is_high_of_pod_resize(cgroup, live, node):
        return LEFT_HIGH
    return None


def left_by_unsent_resize(cgroup: Cgroup, setting: Setting) -> str | None:
    """What left a value of a pod that may have been resized while a container of it did not run: a kubelet
    starts it with the new values then, and writes none to the pod. So it may be in one whose init containers came
    first. None: each container has run since the pod was created."""
    pod = cgroup.pod
    if cgroup.level != "pod" or pod is None or not pod.was_changed or setting.file not in _OF_PODS:
        return None
    waits = any(one.role in ("init", "sidecar") for one in pod.containers)
    lasting = (one for one in pod.containers if one.role in ("regular", "sidecar"))
    if not waits and not any(one.runs is False or one.was_restarted for one in lasting):
        return None
    told = "left by an in-place resize, which a kubelet does not write to the pod where the container does not run"
    is_weight = setting.file in ("cpu.shares", "cpu.weight")
    return told if is_weight else f"{told}; above this limit it cannot start"


def _weight_of_same_shares(setting: Setting, found: str) -> str | None:
    """That a kubelet takes a weight for the planned CPU shares, where it does."""
    is_linear = setting.file == "cpu.weight" and setting.rule.endswith(".linear")
    if not is_linear or not found.isdecimal() or shares_of_weight(int(found)) != setting.inputs[-1]:
        return None
    return f"left by an in-place resize, which reads it as the {setting.inputs[-1]} CPU shares of the request"


def _protection_of_before(setting: Setting, found: str, node: Node) -> str | None:
    """That a kubelet writes the protection of a pod when it creates the pod's cgroup only. Source: PR
    140262; seen with 1.36.2 and TieredReservation."""
    if setting.file not in PROTECTION or not found.isdecimal() or node.profile.minor >= 37:
        return None
    return "as when the pod was created: an in-place resize changes it since Kubernetes 1.37 only"


def is_high_of_pod_resize(cgroup: Cgroup, live: LiveCgroup, node: Node) -> bool:
    """Whether memory.high of a container is what a resize of its pod sent with the memory limit that the
    container has from the pod, now or until the next resize."""
    pod, container, found = cgroup.pod, cgroup.container, live.values.get("memory.high", "")
    if pod is None or container is None or pod.resources is None or not pod.was_changed:
        return False
    policy = node_policy(node)
    factor = policy.factor if policy.memory_qos != "off" else None
    if factor is None or "memory" in container.resources.limits or not found.isdecimal():
        return False
    request = container.resources.requests.get("memory", ZERO).value
    limits = str(pod.resources.limits.get("memory", ZERO).value), live.values.get("memory.max", "")
    sizes = [int(limit) for limit in limits if limit.isdecimal() and limit != "0"]
    page = node.host.page_size
    return int(found) in [high_1_27(request, size, 0, factor, page) for size in sizes]
