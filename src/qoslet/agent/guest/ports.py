"""What a guest needs of its surroundings, besides ``agent.ports``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.audit.finding import AuditReport
from qoslet.core.guest.policy import Ends, GuestPolicy
from qoslet.core.guest.status import SourceStatus
from qoslet.core.node.cluster.eviction_messages import EvictionRequest
from qoslet.core.node.cluster.pod_eviction import EvictionOutcome
from qoslet.core.pressure.guard_mode import WayToEnd
from qoslet.core.resources.cgroup_tree import Plan


class NodeView(Struct, frozen=True):
    """The node as it should be. The same ``plan`` object while nothing is another. ``notes`` say what
    is wrong with the input, ``faults`` what somebody has to correct. ``allocated`` is the plan with what
    the kubelet has allocated, where that is another one."""

    plan: Plan
    policy: GuestPolicy
    source: SourceStatus
    notes: tuple[str, ...] = ()
    allocated: Plan | None = None
    faults: tuple[str, ...] = ()

    @property
    def in_force(self) -> Plan:
        """What may be written: a resize is the kubelet's to allow."""
        return self.plan if self.allocated is None else self.allocated


class NodeSource(Protocol):
    """Where a guest knows its node from: configuration, pods, policy."""

    def current(self, *, asks: bool = True) -> NodeView:
        """The latest; of what cannot be read the last good one. Without ``asks`` nobody is asked who may
        take long to answer. Raises QosletError while there was none."""

    def refresh(self) -> None:
        """Ask for the pods again with the next ``current``, however new they are."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``current`` has something new."""

    def next_at(self) -> float | None:
        """When to ask again at the latest, in monotonic seconds."""


class Auditor(Protocol):
    """Compares the node with a plan."""

    def look(self, plan: Plan) -> AuditReport:
        """Read everything once. Raises QosletError where nothing can be read."""

    def judged(self, first: AuditReport, second: AuditReport, plan: Plan) -> AuditReport:
        """What stands of two looks, the second with ``plan``: without what is on its way. Raises
        QosletError."""

    def happened(self) -> bool:
        """Whether something happened in a planned cgroup since the last call."""

    def descriptors(self) -> Sequence[int]:
        """Readable when something happened there."""


class EvictionClient(Protocol):
    """Evicts pods through the API server, beside the loop."""

    @property
    def descriptor(self) -> int:
        """Readable when there is a ``result``."""

    @property
    def is_busy(self) -> bool:
        """Whether an eviction is under way."""

    def begin(self, ask: EvictionRequest) -> None:
        """Begin an eviction; none is under way."""

    def stop(self) -> None:
        """Send no further request of the eviction that is under way."""

    def result(self) -> tuple[EvictionRequest, EvictionOutcome] | None:
        """How the last one ended, once."""


class NodeStatusClient(Protocol):
    """Patches the status of this node on the API server, beside the loop."""

    def begin(self, body: bytes) -> None:
        """Send a strategic merge patch; none is under way."""

    def result(self, seconds: float = 0.0) -> str | None:
        """How the patch ended, once: why it was not done, or empty; None while it is under way, after
        at most so many seconds, or where there is none."""


class GuestEvictor(Protocol):
    """Ends what a guard has to end, in the way that the policy allows."""

    def way(self, pod: Pod, ends: Ends) -> WayToEnd:
        """How a container of a pod is ended now, or why it is waited for."""

    def evict(self, pod: Pod, container: str, why: str) -> None:
        """Begin to evict a pod; ``way`` said so."""

    def end_container(self, pod: Pod, container: str, path: str) -> None:
        """End one container, whose cgroup is ``path``. Raises QosletError where that cannot be."""

    def stop(self) -> None:
        """Evict no pod that is not evicted yet."""

    def poll(self) -> list[str]:
        """Take in how evictions ended; what there is to say."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``poll`` has something new."""
