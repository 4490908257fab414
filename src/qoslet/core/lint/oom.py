"""Traps of the OOM killer and of QoS classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qoslet.core.api.pod import Container, Pod, Quantities, Resources
from qoslet.core.lint.rule import LintPlace, PodSubject, Text, pod_rule
from qoslet.core.quantity import ZERO

_HOOKS = ("postStart", "preStop")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


@pod_rule(
    "QL040",
    "info",
    Text(
        "first to be ended",
        "A BestEffort pod has oom_score_adj 1000 and the least CPU weight: it goes first.",
        "Request memory and CPU, if it matters.",
        "kubelet qos GetContainerOOMScoreAdjust",
        missing=True,
    ),
)
def best_effort(subject: PodSubject) -> Iterator[LintPlace]:
    """Pods without any request."""
    if subject.qos == "BestEffort":
        yield LintPlace("spec.containers", "requests and limits nothing: the pod is BestEffort")


@pod_rule(
    "QL041",
    "warning",
    Text(
        "one container keeps the pod from being Guaranteed",
        "A pod is Guaranteed if every container, sidecars and init containers too, has equal requests "
        "and limits of CPU and memory.",
        "Give it equal requests and limits, or leave the others without.",
        "kubelet qos GetPodQOS",
        missing=True,
    ),
)
def breaks_guaranteed(subject: PodSubject) -> Iterator[LintPlace]:
    """One container that differs from all others."""
    if subject.qos != "Burstable" or subject.pod.resources is not None:
        return
    counted = [one for one in subject.pod.containers if one.role != "ephemeral"]
    odd = [one for one in counted if not _is_guaranteed(one)]
    if len(odd) == 1 and len(counted) > 1:
        (one,) = odd
        text = "all other containers have equal requests and limits of CPU and memory"
        yield LintPlace(f"{one.field}.resources", text, one.name)


def _is_guaranteed(container: Container) -> bool:
    given = container.resources
    return all(
        given.limits.get(name, ZERO).nano > 0
        and given.requests.get(name, ZERO) == given.limits.get(name)
        for name in ("cpu", "memory")
    )


@pod_rule(
    "QL042",
    "info",
    Text(
        "a probe or hook that can end its container",
        "Its processes count in the container's memory, and with memory.oom.group an OOM kill of one "
        "ends all.",
        "Leave room in the limit for it, or probe by HTTP, TCP or gRPC.",
        "kubelet memory.oom.group since 1.28 (singleProcessOOMKill)",
    ),
)
def probe_in_group(subject: PodSubject) -> Iterator[LintPlace]:
    """Exec probes and hooks where the whole container is ended."""
    for one in subject.regular:
        limited = subject.value(one.name, "memory.max") not in (None, "max")
        if not limited or subject.value(one.name, "memory.oom.group") != "1":
            continue
        for field in _commands(subject.raw(one)):
            text = "runs in the container's memory limit; an OOM kill of it ends the container"
            yield LintPlace(f"{one.field}.{field}", text, one.name)


def _commands(raw: Mapping[str, Any]) -> Iterator[str]:
    """The fields of a container that run a command beside its own."""
    hooks = raw.get("lifecycle")
    places = [(name, raw) for name in _PROBES]
    places += [(name, hooks) for name in _HOOKS if isinstance(hooks, dict)]
    for name, parent in places:
        found = parent.get(name)
        if isinstance(found, dict) and "exec" in found:
            yield name if parent is raw else f"lifecycle.{name}"


@pod_rule(
    "QL043",
    "warning",
    Text(
        "a probe that a busy node starves",
        "An exec probe runs with the container's weight and limit: with little of both it takes "
        "longer than its timeout, and the container is restarted for the load of others.",
        "Raise timeoutSeconds or the CPU request, or probe by HTTP, TCP or gRPC.",
        "kubelet prober; KEP-2254",
        missing=True,
    ),
)
def starved_probe(subject: PodSubject) -> Iterator[LintPlace]:
    """Exec liveness and startup probes with a second of time and hardly any CPU."""
    for one in subject.regular:
        raw = subject.raw(one)
        request, limit = _cpu(subject, one, "requests"), _cpu(subject, one, "limits")
        if not subject.policy.node.kubelet.cpu_cfs_quota:
            limit = 0
        if request >= 50 and not 0 < limit < 100:
            continue
        for name in ("livenessProbe", "startupProbe"):
            probe = raw.get(name)
            if (
                isinstance(probe, dict)
                and "exec" in probe
                and (probe.get("timeoutSeconds") or 1) <= 1
            ):
                text = f"has 1 s, and the container {_little(request, limit)}"
                yield LintPlace(f"{one.field}.{name}.timeoutSeconds", text, one.name)


def _cpu(subject: PodSubject, container: Container, kind: str) -> int:
    """Millicores of a container, or those of its pod where no container has any of its own."""
    whole = subject.pod.resources
    shared = whole is not None and not any(_milli(one.resources, kind) for one in subject.regular)
    return _milli(whole if whole is not None and shared else container.resources, kind)


def _milli(resources: Resources, kind: str) -> int:
    amounts: Quantities = getattr(resources, kind)
    return amounts.get("cpu", ZERO).milli


def _little(request: int, limit: int) -> str:
    if 0 < limit < 100:
        return f"at most {limit}m CPU"
    return f"requests {request}m CPU" if request else "requests no CPU"


@pod_rule(
    "QL044",
    "warning",
    Text(
        "a node-critical pod outside kube-system",
        "system-node-critical gives oom_score_adj -997: however much this pod takes, the kernel and the "
        "kubelet end nearly every other pod first.",
        "Use a priority class of your own; it is meant for agents that each node needs.",
        "kubelet types.IsNodeCriticalPod; qos GetContainerOOMScoreAdjust",
    ),
)
def node_critical(subject: PodSubject) -> Iterator[LintPlace]:
    """Critical pods outside kube-system that are no agent of each node, as those of DaemonSets are."""
    controller = subject.pod.controller
    agent = controller is not None and controller[0] == "DaemonSet"
    if subject.pod.node_critical and subject.pod.namespace != "kube-system" and not agent:
        text = f"system-node-critical in namespace {subject.pod.namespace}"
        yield LintPlace("spec.priorityClassName", text)


@pod_rule(
    "QL045",
    "info",
    Text(
        "an init container decides what is reserved",
        "The scheduler counts the larger of the init containers and of all others together; what an "
        "init container needs for seconds stays reserved.",
        "Request less in the init container, or split its work.",
        "API: effective pod requests",
    ),
)
def init_decides(subject: PodSubject) -> Iterator[LintPlace]:
    """Init containers that ask for more than twice what runs."""
    if subject.pod.resources is not None:
        return
    for name in ("cpu", "memory"):
        running = sum(one.resources.requests.get(name, ZERO).nano for one in subject.regular)
        for one in _inits(subject.pod):
            if one.resources.requests.get(name, ZERO).nano > 2 * running > 0:
                text = f"requests more than twice the {name} of what runs"
                yield LintPlace(f"{one.field}.resources.requests.{name}", text, one.name)


def _inits(pod: Pod) -> Iterator[Container]:
    return (one for one in pod.containers if one.role == "init")
