"""What an in-place resize of a pod's own resources leaves in its containers.

Source: seen beside a kubelet 1.36.2 (InPlacePodLevelResourcesVerticalScaling): it sends the new pod-level
limits to containers without limits of their own, with a cpu request of 0, and nothing to ephemeral ones.
"""

from __future__ import annotations

from qoslet.core.resources.cgroup_tree import Cgroup, Setting
from qoslet.core.rules.cpu import MIN_SHARES, weight_linear, weight_quadratic

_NOTHING = {
    "cpu.shares": (str(MIN_SHARES),),
    "cpu.weight": (str(weight_linear(MIN_SHARES)), str(weight_quadratic(MIN_SHARES))),
}
"""What a request of 0 is."""


def left_by_pod_resize(cgroup: Cgroup, setting: Setting, found: str) -> str | None:
    """What a resize of the pod left in a file of a container, as a sentence; None: nothing."""
    pod, container = cgroup.pod, cgroup.container
    if pod is None or container is None or pod.resources is None or not pod.was_changed:
        return None
    if container.role == "ephemeral":
        return "as when it started: a resize of the pod does not reach ephemeral containers"
    if "cpu" not in container.resources.requests and found in _NOTHING.get(setting.file, ()):
        return "left by an in-place resize of pod-level resources, which sends a request of 0"
    return None
