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
from qoslet.core.resources.cri_resources import sent
from qoslet.core.resources.memory_qos import node_protects, protects
from qoslet.core.resources.node_policy import Basis
from qoslet.core.resources.qos_cgroups import PodNumbers, numbers_of, pod_settings
from qoslet.core.resources.qos_class import classify
from qoslet.core.resources.windows import windows_settings


class Shape(Struct, gc=False):
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


class Shapes:
    """The shapes of one node's pods."""

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._shapes: dict[object, Shape] = {}
        self._containers: dict[object, tuple[PlannedContainer, Container]] = {}

    @property
    def count(self) -> int:
        """How many shapes are kept."""
        return len(self._shapes)

    def of(self, pod: Pod) -> Shape:
        """The class, sums and settings of a pod."""
        key = _shape_key(pod)
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = self._shape(pod)
        return found

    def forget(self, shape: Shape) -> None:
        """Drop a shape that no pod has any more, with what was kept for its containers."""
        self._shapes.pop(_shape_key(shape.kept), None)
        known = as_release_sees(self._basis, shape.kept)
        for container in known.containers:
            self._containers.pop(_container_key(known, container, shape.qos), None)

    def _shape(self, pod: Pod) -> Shape:
        basis = self._basis
        known = as_release_sees(basis, pod)
        qos = classify(known, basis.qos_rules)
        sums = numbers_of(basis, known)
        windows = is_windows(basis, pod)
        return Shape(
            qos=qos,
            sums=sums,
            memory=sums.requests.get("memory", ZERO).value,
            milli=sums.requests.get("cpu", ZERO).milli,
            apart=protects(basis, known.memory) != node_protects(basis),
            settings=() if windows else pod_settings(basis, known, qos, sums),
            containers=tuple(self._container(known, c, qos, windows) for c in known.containers),
            kept=pod,
        )

    def _container(
        self, pod: Pod, container: Container, qos: QosClass, windows: bool
    ) -> PlannedContainer:
        if windows:
            return PlannedContainer(windows_settings(self._basis, pod, container), None, None, ())
        if pod.resources is not None or container.role == "sidecar" or pod.memory is not NO_POLICY:
            return self._plan_container(pod, container, qos)
        key = _container_key(pod, container, qos)
        found = self._containers.get(key)
        if found is None:
            planned = self._plan_container(pod, container, qos)
            found = self._containers[key] = planned, container
        return found[0]

    def _plan_container(self, pod: Pod, container: Container, qos: QosClass) -> PlannedContainer:
        message = sent(self._basis, pod, container, qos)
        rule, inputs = message.oom_why
        return PlannedContainer(
            container_settings(self._basis, message), message.oom_score_adj, rule, inputs
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


def is_windows(basis: Basis, pod: Pod) -> bool:
    """Whether the pod's containers are Windows containers."""
    return pod.os == "windows" or basis.node.os == "windows"


def as_release_sees(basis: Basis, pod: Pod) -> Pod:
    """The pod without what the release does not know: sidecars, pod-level resources."""
    sidecars = basis.choices.sidecars and (
        basis.gate("SidecarContainers") or basis.node.profile.minor >= 33
    )
    if sidecars and (basis.pod_level or pod.resources is None):
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
        resources=pod.resources if basis.pod_level else None,
        overhead=pod.overhead,
        os=pod.os,
        critical=pod.critical,
        node_critical=pod.node_critical,
        memory=pod.memory,
    )
