"""Which pods may be evicted so that no workload is left without a pod that is Ready.

An agent takes the Lease of a workload, then evicts only where every other pod of the workload is
Ready and there is one. So one agent at a time takes a pod away, and one more is always left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from msgspec import Struct

from qoslet.core.node.cluster.eviction_messages import ApiPod

LEASES = 128
"""How many Leases there are at most; workloads share them by the hash of their name."""
_HASH = "pod-template-hash"
_OF_ONE_POD = (
    _HASH,
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
)
"""Labels that pods of one workload have with different values, besides those of their place."""
_PLACE = "topology.kubernetes.io/"


class PodWorkload(Struct, frozen=True):
    """What replaces a pod that is evicted: the Deployment of a ReplicaSet, or a controller itself."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        """As people name it."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def lease(self) -> str:
        """The name of the Lease that an agent takes to evict one of its pods."""
        digest = hashlib.sha256(str(self).encode()).digest()
        return f"qoslet-evict-{int.from_bytes(digest[:8], 'big') % LEASES:03}"


def workload_of(pod: ApiPod) -> PodWorkload | None:
    """The workload of a pod; None of one that nothing replaces."""
    owner = pod.owner
    if owner is None:
        return None
    end = f"-{pod.labels.get(_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(end) > 1 and owner.name.endswith(end):
        return PodWorkload(pod.metadata.namespace, "Deployment", owner.name.removesuffix(end))
    return PodWorkload(pod.metadata.namespace, owner.kind, owner.name)


def not_evictable(controller: str | None) -> str:
    """Why a pod is not evicted, by the kind of its controller; empty where it may be."""
    if not controller:
        return "no controller replaces it"
    if controller == "Node":
        return "it is a static pod"
    if controller == "DaemonSet":
        return "its DaemonSet starts it on this node again"
    return ""


def selector_of(labels: Mapping[str, str]) -> str:
    """The selector of the pods of a workload, by the labels of one; empty where they tell nothing."""
    return ",".join(
        f"{name}={value}"
        for name, value in sorted(labels.items())
        if name not in _OF_ONE_POD and not name.startswith(_PLACE)
    )


class Others(Struct, frozen=True):
    """The other pods of a workload, those that have not ended."""

    ready: int = 0
    not_ready: int = 0

    def and_those(self, pod: ApiPod, workload: PodWorkload, pods: Iterable[ApiPod]) -> Others:
        """These, with those of one page more; ``pod`` is the one to evict."""
        ready, others = self.ready, self.not_ready
        for one in pods:
            if one.metadata.uid == pod.metadata.uid or one.has_ended:
                continue
            if workload_of(one) == workload:
                ready, others = ready + one.is_ready, others + (not one.is_ready)
        return Others(ready, others)

    def refusal(self, workload: PodWorkload) -> str:
        """Why no pod of the workload is evicted now; empty where one may be."""
        if not self.ready and not self.not_ready:
            return f"it is the only pod of {workload}"
        if self.not_ready:
            count = self.ready + self.not_ready
            return f"{self.not_ready} of {count} other pods of {workload} not Ready"
        return ""
