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
    """The node as it should be. ``plan`` is the same object until something changes. ``notes`` say what
    is wrong with the input; ``faults`` have to be corrected by the user. ``allocated`` is the plan with
    the resources that the kubelet has allocated, if they differ from those in the pods' specs."""

    plan: Plan
    policy: GuestPolicy
    source: SourceStatus
    notes: tuple[str, ...] = ()
    allocated: Plan | None = None
    faults: tuple[str, ...] = ()

    @property
    def in_force(self) -> Plan:
        """The plan whose values may be written: a resize counts once the kubelet has allocated it."""
        return self.plan if self.allocated is None else self.allocated


class NodeSource(Protocol):
    """Gives a guest its node: configuration, pods, policy."""

    def current(self, *, asks: bool = True) -> NodeView:
        """The node as last read; a part that cannot be read stays as it was. Without ``asks`` nothing is
        asked that may take long to answer. Raises QosletError until the node was read once."""

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
        """The report of two looks, the second with ``plan``, without findings about changes that are under
        way. Raises QosletError."""

    def happened(self) -> bool:
        """Whether something happened in a planned cgroup since the last call."""

    def descriptors(self) -> Sequence[int]:
        """Readable when something happened in a planned cgroup."""


class EvictionClient(Protocol):
    """Evicts pods through the API server, beside the loop."""

    @property
    def descriptor(self) -> int:
        """Readable when there is a ``result``."""

    @property
    def is_busy(self) -> bool:
        """Whether an eviction is under way."""

    def begin(self, ask: EvictionRequest) -> None:
        """Begin an eviction. Call it only if none is under way."""

    def stop(self) -> None:
        """Send no further request of the eviction that is under way."""

    def result(self) -> tuple[EvictionRequest, EvictionOutcome] | None:
        """The outcome of the last eviction, given once; None if there is none."""


class NodeStatusClient(Protocol):
    """Patches the status of this node on the API server, beside the loop."""

    def begin(self, body: bytes) -> None:
        """Send a strategic merge patch. Call it only if none is under way."""

    def result(self, seconds: float = 0.0) -> str | None:
        """The outcome of the patch, given once: why it failed, or empty. None if there is no patch, or if it
        is still under way after ``seconds``."""


class GuestEvictor(Protocol):
    """Ends what a guard has to end, in the way that the policy allows."""

    def way(self, pod: Pod, ends: Ends) -> WayToEnd:
        """How a container of a pod would be ended now, or why that has to wait."""

    def evict(self, pod: Pod, container: str, why: str) -> None:
        """Begin to evict a pod, as ``way`` allowed."""

    def end_container(self, pod: Pod, container: str, path: str) -> None:
        """End one container, whose cgroup is ``path``. Raises QosletError if that fails."""

    def stop(self) -> None:
        """Begin no further eviction."""

    def poll(self) -> list[str]:
        """Take in the outcomes of evictions. Returns lines about them."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``poll`` has something new."""
