"""What a guest needs of its surroundings, besides ``agent.ports``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.audit.finding import AuditReport
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.guest.status import SourceStatus
from qoslet.core.resources.cgroup_tree import Plan


class NodeView(Struct, frozen=True):
    """The node as it should be. The same ``plan`` object while nothing is another. ``notes`` say what
    is wrong with the input, once."""

    plan: Plan
    policy: GuestPolicy
    source: SourceStatus
    notes: tuple[str, ...] = ()


class NodeSource(Protocol):
    """Where a guest knows its node from: configuration, pods, policy."""

    def current(self) -> NodeView:
        """The latest; of what cannot be read the last good one. Raises QosletError while there was
        none."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``current`` has something new."""

    def next_at(self) -> float | None:
        """When to ask again at the latest, in monotonic seconds."""


class Auditor(Protocol):
    """Compares the node with a plan."""

    def look(self, plan: Plan) -> AuditReport:
        """Read everything once. Raises QosletError where nothing can be read."""

    def happened(self) -> bool:
        """Whether something happened in a planned cgroup since the last call."""

    def descriptors(self) -> Sequence[int]:
        """Readable when something happened there."""


class GuestEvictor(Protocol):
    """Ends what a guard has to end, in the way that the policy allows."""

    def end_container(self, pod: Pod, container: str, path: str, why: str) -> None:
        """End one container, whose cgroup is ``path``. Raises QosletError where that cannot be."""
