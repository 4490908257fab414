"""How the containers of a Windows pod are isolated: by its RuntimeClass, its annotation, the flag.

Source: containerd pkg/cri/config DefaultConfig on Windows (handlers runhcs-wcow-process and
runhcs-wcow-hypervisor), kubelet pkg/kubelet/apis ShouldIsolatedByHyperV, kubernetes.io
create-hostprocess-pod.
"""

from __future__ import annotations

import enum

from qoslet.core.api.pod import Pod
from qoslet.core.resources.node_policy import NodePolicy

ANNOTATION_UNTIL = 19
"""The last minor in which the gate HyperVContainer could be enabled."""

HANDLERS_SINCE = 18
"""The first minor that runs Windows containers with containerd; dockershim has no handlers."""

HOST_PROCESS_SINCE = 22


class HandlerKind(enum.Enum):
    """What a handler of a RuntimeClass says of isolation."""

    NONE = "none"
    PROCESS = "process"
    HYPERV = "hyperv"
    UNKNOWN = "unknown"


def handler_kind(handler: str | None) -> HandlerKind:
    """The kind of a handler, by containerd's names of them."""
    if not handler:
        return HandlerKind.NONE
    if "hypervisor" in handler or "hyperv" in handler or handler == "runhcs-lcow":
        return HandlerKind.HYPERV
    return HandlerKind.PROCESS if "process" in handler else HandlerKind.UNKNOWN


def annotation_counts(policy: NodePolicy) -> bool:
    """Whether a kubelet reads the annotation; the design has no gate."""
    if policy.choices.windows == "design":
        return True
    return policy.node.profile.minor <= ANNOTATION_UNTIL and policy.gate("HyperVContainer")


def asks_for_hyperv(policy: NodePolicy, pod: Pod) -> bool:
    """Whether Hyper-V isolation is asked for: by the flag, else the handler, else the annotation."""
    if policy.node.isolation is not None:
        return policy.node.isolation == "hyperv"
    if pod.isolation == "hyperv" and annotation_counts(policy):
        return True
    if policy.node.profile.minor < HANDLERS_SINCE:
        return False
    return handler_kind(pod.platform.handler) is HandlerKind.HYPERV


def knows_host_process(policy: NodePolicy) -> bool:
    """Whether the release has HostProcess containers; the gate is on by default since 1.23."""
    node = policy.node
    return node.profile.minor >= HOST_PROCESS_SINCE and node.gate_by_release(
        "WindowsHostProcessContainers"
    )


def on_host(policy: NodePolicy, pod: Pod) -> bool:
    """Whether the containers run on the host itself."""
    return pod.platform.host_process and knows_host_process(policy)


def hyperv(policy: NodePolicy, pod: Pod) -> bool:
    """Whether the containers run in a VM."""
    return asks_for_hyperv(policy, pod) and not on_host(policy, pod)
