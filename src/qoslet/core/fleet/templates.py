"""Templates of shapes, worked out once for all nodes that differ in nothing that decides about them.

A machine's memory decides about OOM scores, and about values only with a throttling factor of Memory
QoS, limited swap or annotations; its processors decide about Windows. All else of a node is in the key.
"""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.api.memory_annotations import NO_POLICY
from qoslet.core.api.pod import Pod
from qoslet.core.fleet.shapes import plain
from qoslet.core.node.node import Node
from qoslet.core.resources.cri_resources import oom_score
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.pod_template import (
    PlannedContainer,
    PodTemplatePlan,
    TemplateCache,
    as_release_sees,
)


def node_key(node: Node) -> str:
    """The same for nodes that are equal but for their names and where their fields came from."""
    reservation = "memoryReservationPolicy" in node.origins
    return repr((plain(replace(node, name=None, origins={}, assumed=(), probed=())), reservation))


class TemplateStore:
    """The templates of all nodes of a fleet, on both sides."""

    def __init__(self) -> None:
        self._caches: dict[tuple[str, tuple[int, ...]], TemplateCache] = {}

    @property
    def planned(self) -> int:
        """How many templates were worked out."""
        return sum(cache.count for cache in self._caches.values())

    def cache(self, policy: NodePolicy, key: str, amounts: tuple[int, ...]) -> TemplateCache:
        """The templates of policies with this key and these amounts."""
        found = self._caches.get((key, amounts))
        if found is None:
            found = self._caches[key, amounts] = TemplateCache(policy)
        return found


class NodeTemplates:
    """The templates of one kind of node. ``key`` is the same for kinds that differ in amounts
    only, which decide about no name and no file."""

    def __init__(self, policy: NodePolicy, store: TemplateStore) -> None:
        self._policy = policy
        self._rescored: dict[int, PodTemplatePlan] = {}
        self.key = _without_amounts(policy)
        amounts = policy.memory_capacity, policy.unevicted_memory, policy.processors
        self._own = store.cache(policy, self.key, amounts)
        unthrottled = policy.memory_qos == "off" or policy.factor is None
        shared = unthrottled and policy.swap_behavior != "LimitedSwap"
        shared = shared and policy.node.os == "linux"
        self._shared = store.cache(policy, self.key, ()) if shared else None

    def of(self, shape: Pod) -> PodTemplatePlan:
        """The template of a shape."""
        if self._shared is None or shape.os != "linux" or shape.memory != NO_POLICY:
            return self._own.of(shape)
        base = self._shared.of(shape)
        found = self._rescored.get(id(base))
        if found is None:
            found = self._rescored[id(base)] = rescored(self._policy, base)
        return found


def rescored(policy: NodePolicy, template: PodTemplatePlan) -> PodTemplatePlan:
    """The template with the OOM scores that the node's memory gives; itself where they are equal."""
    if template.qos != "Burstable":
        return template
    pod = as_release_sees(policy, template.kept)
    containers = []
    for container, planned in zip(pod.containers, template.containers, strict=True):
        score, why = oom_score(policy, pod, container, template.qos)
        containers.append(PlannedContainer(planned.settings, score, *why))
    made = tuple(containers)
    return template if made == template.containers else replace(template, containers=made)


def _without_amounts(policy: NodePolicy) -> str:
    node = policy.node
    kubelet = replace(
        node.kubelet,
        kube_reserved={},
        system_reserved={},
        eviction_hard={},
        max_pods=0,
        pods_per_core=0,
    )
    bare = replace(node, capacity={}, kubelet=kubelet, kubelet_given=False, status_allocatable={})
    return node_key(bare)
