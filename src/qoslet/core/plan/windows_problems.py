"""What a reader of a plan for a Windows node should know about pods.

Source: kubelet kuberuntime_container_windows.go; kubernetes.io Windows containers, HostProcess pods;
gate WindowsHostProcessContainers; annotation and gate HyperVContainer of 1.10 to 1.19.
"""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.api.pod import ISOLATION
from qoslet.core.api.schema import child
from qoslet.core.plan.totals import TemplateSummary
from qoslet.core.problem import Problem
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.windows_isolation import (
    ANNOTATION_UNTIL,
    HOST_PROCESS_SINCE,
    HandlerKind,
    annotation_counts,
    asks_for_hyperv,
    handler_kind,
    knows_host_process,
)


def windows_pod_problems(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    """The rows about pods of one shape on a Windows node."""
    pod = template.pod
    if pod.resources is not None:
        message = "Windows has no limits above containers: a job object belongs to one container"
        hint = "set the same limits on the containers"
        yield Problem("warning", f"{template.where}: spec.resources", message, hint)
    for name in template.requests:
        if name.startswith("hugepages-"):
            message = "Windows has no huge pages for pods: no Windows node offers any"
            yield Problem("warning", f"{template.where}: {name}", message, "remove them")
    yield from _isolation(policy, template)
    if pod.memory.given:
        # imported for a pod with annotations
        from qoslet.core.plan.memory_problems import pod_memory_problems

        yield from pod_memory_problems(policy, template)


def _isolation(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    """Isolation and HostProcess."""
    pod, release = template.pod, policy.node.profile.kubernetes
    if pod.isolation == "hyperv" and not annotation_counts(policy):
        where = f"{template.where}: {child('metadata.annotations', ISOLATION)}"
        message = f"has no effect in {release}: the containers run in process isolation"
        hint = "enable the gate HyperVContainer"
        if policy.node.profile.minor > ANNOTATION_UNTIL:
            hint = "name a RuntimeClass whose handler isolates, such as runhcs-wcow-hypervisor"
        yield Problem("warning", where, message, hint)
    kind = handler_kind(pod.platform.handler)
    if kind is HandlerKind.UNKNOWN and policy.node.isolation is None:
        where = f"{template.where}: spec.runtimeClassName"
        message = f"qoslet does not know how handler {pod.platform.handler} isolates: it assumes process isolation"
        yield Problem("info", where, message, "name the isolation with --isolation")
    if not pod.platform.host_process:
        return
    where = f"{template.where}: spec.securityContext.windowsOptions.hostProcess"
    if not knows_host_process(policy):
        message = f"{release} has no HostProcess containers: they run isolated"
        hint = f"1.{HOST_PROCESS_SINCE} has them, with the gate WindowsHostProcessContainers"
        yield Problem("warning", where, message, hint)
    elif asks_for_hyperv(policy, pod):
        message = "HostProcess containers run on the host itself, not in a VM: the container runtime rejects the pod"
        yield Problem("warning", where, message, "use process isolation for this pod")
    else:
        message = "the containers run on the host itself, without isolation; only their job objects limit them"
        yield Problem("info", where, message, "")
