"""A pod's QoS class, its sums and the settings of its cgroups.

Pods of one template (the same resources in the same roles) are computed once.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.memory_annotations import NO_POLICY
from qoslet.core.api.pod import NO_PLATFORM, Container, Pod, QosClass, Resources
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.cgroup_writer import container_settings
from qoslet.core.resources.cri_resources import cri_resources
from qoslet.core.resources.memory_qos import node_protects, protects
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.qos_cgroups import PodNumbers, numbers_of, pod_files
from qoslet.core.resources.qos_class import classify


class PodTemplatePlan(Struct, gc=False):
    """What pods of the same resources share. ``kept`` holds the objects whose identity is the
    key, so that no other object can take it."""

    qos: QosClass
    sums: PodNumbers
    memory: int
    milli: int
    apart: bool
    settings: tuple[Setting, ...]
    containers: tuple[PlannedContainer, ...]
    kept: Pod


class PlannedContainer(Struct, gc=False):
    """A container of a template."""

    settings: tuple[Setting, ...]
    oom_score_adj: int | None
    oom_rule: str | None
    oom_inputs: tuple[object, ...]


class TemplateCache:
    """The templates of one node's pods."""

    def __init__(self, policy: NodePolicy) -> None:
        self._policy = policy
        self._plans: dict[object, PodTemplatePlan] = {}
        self._containers: dict[object, tuple[PlannedContainer, Container]] = {}

    @property
    def count(self) -> int:
        """The number of cached templates."""
        return len(self._plans)

    def of(self, pod: Pod) -> PodTemplatePlan:
        """The class, sums and settings of a pod."""
        key = _shape_key(pod)
        template = self._plans.get(key)
        if template is None:
            template = self._plans[key] = self._plan(pod)
        return template

    def forget(self, template: PodTemplatePlan) -> None:
        """Drop a template that no pod has any more, and its containers."""
        self._plans.pop(_shape_key(template.kept), None)
        seen_pod = as_release_sees(self._policy, template.kept)
        for container in seen_pod.containers:
            self._containers.pop(_container_key(seen_pod, container, template.qos), None)

    def _plan(self, pod: Pod) -> PodTemplatePlan:
        policy = self._policy
        seen_pod = as_release_sees(policy, pod)
        qos = classify(seen_pod, policy.qos_rules)
        sums = numbers_of(policy, seen_pod)
        windows = is_windows(policy, pod)
        return PodTemplatePlan(
            qos=qos,
            sums=sums,
            memory=sums.requests.get("memory", ZERO).value,
            milli=sums.requests.get("cpu", ZERO).milli,
            apart=protects(policy, seen_pod.memory) != node_protects(policy),
            settings=() if windows else pod_files(policy, seen_pod, qos, sums).settings(),
            containers=tuple(
                self._container(seen_pod, c, qos, windows) for c in seen_pod.containers
            ),
            kept=pod,
        )

    def _container(
        self, pod: Pod, container: Container, qos: QosClass, windows: bool
    ) -> PlannedContainer:
        if windows:
            # imported for the first pod of Windows
            from qoslet.core.resources.windows import windows_settings

            return PlannedContainer(windows_settings(self._policy, pod, container), None, None, ())
        single = pod.resources is not None or container.role == "sidecar"
        # what is left of copied requests is a new object each time
        single = single or self._policy.choices.limit_alone == "nothing"
        if single or pod.memory is not NO_POLICY:
            return self._plan_container(pod, container, qos)
        key = _container_key(pod, container, qos)
        entry = self._containers.get(key)
        if entry is None:
            planned = self._plan_container(pod, container, qos)
            entry = self._containers[key] = planned, container
        return entry[0]

    def _plan_container(self, pod: Pod, container: Container, qos: QosClass) -> PlannedContainer:
        message = cri_resources(self._policy, pod, container, qos)
        rule, inputs = message.oom_why
        return PlannedContainer(
            container_settings(self._policy, message), message.oom_score_adj, rule, inputs
        )


def _shape_key(pod: Pod) -> object:
    return (
        *[(container.role, id(container.resources)) for container in pod.containers],
        id(pod.resources),
        id(pod.overhead),
        pod.critical,
        pod.node_critical,
        pod.os,
        pod.isolation,
        # most pods have this one, and its hash is the sum of its fields
        None if pod.platform is NO_PLATFORM else pod.platform,
        *(() if pod.memory is NO_POLICY else _own_memory(pod)),
    )


def _own_memory(pod: Pod) -> tuple[object, ...]:
    """The part of the key from memory annotations, which may name containers."""
    return pod.memory, *[container.name for container in pod.containers]


def _container_key(pod: Pod, container: Container, qos: QosClass) -> object:
    return id(container.resources), container.role, qos, pod.critical, pod.node_critical


def is_windows(policy: NodePolicy, pod: Pod) -> bool:
    """Whether the pod's containers are Windows containers."""
    return pod.os == "windows" or policy.node.os == "windows"


def without_copied_requests(policy: NodePolicy, pod: Pod) -> Pod:
    """The pod; under the documents a Burstable one without the memory requests that defaulting
    copies from limits.

    They count the limit as the request in other classes and for CPU. Source: KEP-2570 case III; pod-resource-management, Pod3 of the examples: its CPU shares
    are 20m + 100m, its memory counts as 1Gi of 2Gi in the limit of besteffort.
    """
    if policy.choices.limit_alone == "request":
        return pod
    if not any("memory" in container.defaulted for container in pod.containers):
        return pod
    if classify(pod, policy.qos_rules) != "Burstable":
        return pod
    return replace(pod, containers=tuple(map(_without_copied_memory, pod.containers)))


def _without_copied_memory(container: Container) -> Container:
    if "memory" not in container.defaulted:
        return container
    requests = {n: q for n, q in container.resources.requests.items() if n != "memory"}
    return replace(
        container,
        resources=Resources(requests, container.resources.limits),
        defaulted=tuple(name for name in container.defaulted if name != "memory"),
    )


def _defaulted(policy: NodePolicy, pod: Pod, written: Resources) -> Pod:
    """The pod with its pod-level resources defaulted as the release's API server does."""
    # imported for a pod that has them
    from qoslet.core.api.pod_level_resources import CURRENT, DefaultingRules, default_pod_level

    choices = policy.choices
    rules = DefaultingRules(choices.pod_level_hugepages, choices.pod_level_limits)
    if rules == CURRENT:
        return pod
    resources, defaulted = default_pod_level(written, pod.containers, rules)
    if resources == pod.resources:
        return pod
    return replace(pod, resources=resources, defaulted=defaulted)


def as_release_sees(policy: NodePolicy, pod: Pod) -> Pod:
    """The pod without what the release lacks: sidecars, pod-level resources, defaulted requests;
    pod-level resources are defaulted as the release does."""
    if pod.written is not None and policy.pod_level:
        pod = _defaulted(policy, pod, pod.written)
    pod = without_copied_requests(policy, pod)
    sidecars = policy.choices.sidecars and (
        policy.gate("SidecarContainers") or policy.node.profile.minor >= 33
    )
    if sidecars and (policy.pod_level or pod.resources is None):
        return pod
    containers = pod.containers
    if not sidecars:
        containers = tuple(
            Container(c.name, "init", c.field, c.resources, c.id, c.defaulted, c.runs)
            if c.role == "sidecar"
            else c
            for c in containers
        )
    return replace(
        pod, containers=containers, resources=pod.resources if policy.pod_level else None
    )
