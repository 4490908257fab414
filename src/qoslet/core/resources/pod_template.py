"""What a pod's resources come to: its class, its sums, the settings of its groups.

Pods of one shape (the same resources in the same roles) are worked out once.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.api.memory_annotations import NO_POLICY
from qoslet.core.api.pod import Container, Pod, QosClass
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
    """A container's part of a shape."""

    settings: tuple[Setting, ...]
    oom_score_adj: int | None
    oom_rule: str | None
    oom_inputs: tuple[object, ...]


class TemplateCache:
    """The shapes of one node's pods."""

    def __init__(self, policy: NodePolicy) -> None:
        self._policy = policy
        self._plans: dict[object, PodTemplatePlan] = {}
        self._containers: dict[object, tuple[PlannedContainer, Container]] = {}

    @property
    def count(self) -> int:
        """How many shapes are kept."""
        return len(self._plans)

    def of(self, pod: Pod) -> PodTemplatePlan:
        """The class, sums and settings of a pod."""
        key = _shape_key(pod)
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._plan(pod)
        return found

    def forget(self, template: PodTemplatePlan) -> None:
        """Drop a shape that no pod has any more, with what was kept for its containers."""
        self._plans.pop(_shape_key(template.kept), None)
        known = as_release_sees(self._policy, template.kept)
        for container in known.containers:
            self._containers.pop(_container_key(known, container, template.qos), None)

    def _plan(self, pod: Pod) -> PodTemplatePlan:
        policy = self._policy
        known = as_release_sees(policy, pod)
        qos = classify(known, policy.qos_rules)
        sums = numbers_of(policy, known)
        windows = is_windows(policy, pod)
        return PodTemplatePlan(
            qos=qos,
            sums=sums,
            memory=sums.requests.get("memory", ZERO).value,
            milli=sums.requests.get("cpu", ZERO).milli,
            apart=protects(policy, known.memory) != node_protects(policy),
            settings=() if windows else pod_files(policy, known, qos, sums).settings(),
            containers=tuple(self._container(known, c, qos, windows) for c in known.containers),
            kept=pod,
        )

    def _container(
        self, pod: Pod, container: Container, qos: QosClass, windows: bool
    ) -> PlannedContainer:
        if windows:
            # imported for the first pod of Windows
            from qoslet.core.resources.windows import windows_settings

            return PlannedContainer(windows_settings(self._policy, pod, container), None, None, ())
        if pod.resources is not None or container.role == "sidecar" or pod.memory is not NO_POLICY:
            return self._plan_container(pod, container, qos)
        key = _container_key(pod, container, qos)
        found = self._containers.get(key)
        if found is None:
            planned = self._plan_container(pod, container, qos)
            found = self._containers[key] = planned, container
        return found[0]

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
        *_own_memory(pod),
    )


def _own_memory(pod: Pod) -> tuple[object, ...]:
    """What a pod's own word on memory makes of its containers, whose names it may tell apart."""
    if pod.memory is NO_POLICY:
        return ()
    return pod.memory, *[container.name for container in pod.containers]


def _container_key(pod: Pod, container: Container, qos: QosClass) -> object:
    return id(container.resources), container.role, qos, pod.critical, pod.node_critical


def is_windows(policy: NodePolicy, pod: Pod) -> bool:
    """Whether the pod's containers are Windows containers."""
    return pod.os == "windows" or policy.node.os == "windows"


def as_release_sees(policy: NodePolicy, pod: Pod) -> Pod:
    """The pod without what the release does not know: sidecars, pod-level resources."""
    sidecars = policy.choices.sidecars and (
        policy.gate("SidecarContainers") or policy.node.profile.minor >= 33
    )
    if sidecars and (policy.pod_level or pod.resources is None):
        return pod
    containers = pod.containers
    if not sidecars:
        containers = tuple(
            Container(c.name, "init", c.field, c.resources, c.id, c.defaulted)
            if c.role == "sidecar"
            else c
            for c in containers
        )
    return Pod(
        pod.namespace,
        pod.name,
        pod.uid,
        pod.where,
        containers,
        uid_from=pod.uid_from,
        resources=pod.resources if policy.pod_level else None,
        overhead=pod.overhead,
        os=pod.os,
        critical=pod.critical,
        node_critical=pod.node_critical,
        memory=pod.memory,
    )
