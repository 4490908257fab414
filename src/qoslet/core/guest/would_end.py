"""What a guard would end of each pod that stalls, for a dry run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.guest.policy import GuestPolicy, may_not_end
from qoslet.core.node.cluster.eviction_rules import not_evictable


class WouldEnd(Struct, frozen=True):
    """``evict``: the pod, where the API server lets it; ``end``: a container of it; ``none``."""

    pod: str
    way: Literal["evict", "end", "none"]
    why: str = ""

    def __str__(self) -> str:
        """In one line."""
        return _SAID[self.way].format(self.pod) + (f": {self.why}" if self.why else "")


_SAID = {
    "evict": "may evict {}",
    "end": "may end a container of {}",
    "none": "ends nothing of {}",
}


def would_end(
    policy: GuestPolicy, pods: Iterable[Pod], own: Collection[str] = ()
) -> tuple[WouldEnd, ...]:
    """A row for each pod; none where the policy lets a guard end nothing. ``own`` are the UIDs of the
    agent's own pod."""
    if policy.mode != "guard" or "memory.high" not in policy.files or policy.ends == "none":
        return ()
    return tuple(_row(policy, pod, own) for pod in sorted(pods, key=lambda one: one.key))


def _row(policy: GuestPolicy, pod: Pod, own: Collection[str]) -> WouldEnd:
    critical = pod.critical or pod.node_critical
    why = may_not_end(policy, pod.key, critical=critical, uid=pod.uid, own=own)
    if not why and pod.memory.guard == "off":
        why = "its annotation takes it out of the guard"
    if why:
        return WouldEnd(pod.key, "none", why)
    if policy.ends == "container":
        return WouldEnd(pod.key, "end")
    why = not_evictable(pod.controller and pod.controller[0])
    return WouldEnd(pod.key, "end" if why else "evict", why)
