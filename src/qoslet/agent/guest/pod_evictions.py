"""How a guest ends what has to be ended: a pod through the API server, or a container alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qoslet.agent.guest.container_killer import GuestContainerKiller
from qoslet.agent.guest.hour_budget import HourBudget, KeptTimes
from qoslet.agent.guest.ports import EvictionClient
from qoslet.core.api.pod import Pod
from qoslet.core.guest.policy import Ends
from qoslet.core.node.cluster.eviction_messages import EvictionRequest
from qoslet.core.node.cluster.eviction_rules import not_evictable
from qoslet.core.node.cluster.pod_eviction import DEADLINE_SECONDS, EvictionOutcome
from qoslet.core.pressure.guard_mode import WayToEnd

ASKS_AN_HOUR = 30
"""How many evictions are asked for within an hour, whatever the answers."""
REFUSED_SECONDS = 300.0
"""How long a refused eviction is not asked for again."""
LATE_SECONDS = 15.0
"""How much longer than its deadline an eviction is waited for."""
ENDING_SECONDS = 15.0
"""How much longer than its grace period the end of an evicted pod is waited for."""


class GuestEvictions:
    """Matches ``agent.guest.ports.GuestEvictor``. ``budget`` counts pods that were evicted and containers
    that were ended; ``node`` is this node's
    name."""

    def __init__(
        self,
        killer: GuestContainerKiller,
        budget: HourBudget,
        client: EvictionClient,
        node: str,
        clock: Callable[[], float],
        asks: KeptTimes | None = None,
    ) -> None:
        self._killer, self._budget, self._client = killer, budget, client
        self._node, self._clock = node, clock
        self._asks = HourBudget(ASKS_AN_HOUR, clock, asks)
        self._asking: EvictionRequest | None = None
        self._late_at = 0.0
        self._evicted: dict[str, float] = {}
        self._refused: dict[str, tuple[float, str]] = {}

    def way(self, pod: Pod, ends: Ends) -> WayToEnd:
        """How a container of a pod is ended now, or why it is waited for."""
        if ends == "container":
            return "end", ""
        if why := not_evictable(pod.controller and pod.controller[0]):
            return "end", f"the pod is not evicted: {why}"
        now = self._clock()
        if pod.uid in self._evicted:
            if now < self._evicted[pod.uid]:
                return "none", "the pod was evicted; waiting for its end"
            return "end", "the pod was evicted and does not end"
        if pod.uid in self._refused:
            return "end", f"the pod is not evicted: {self._refused[pod.uid][1]}"
        asking = self._asking
        if self._client.is_busy or asking is not None:
            if now >= self._late_at:
                return "end", "the pod is not evicted: the API server does not answer"
            return "none", f"the eviction of {asking.key if asking else 'a pod'} is under way"
        if self._budget.is_used_up:
            return "none", f"{self._budget.most} pods and containers were ended within the hour"
        if self._asks.is_used_up:
            return "end", f"{ASKS_AN_HOUR} evictions were asked for within the hour"
        return "evict", ""

    def evict(self, pod: Pod, container: str, why: str) -> None:
        """Begin to evict a pod; ``way`` said so."""
        self._asks.take()
        self._asking = EvictionRequest(pod.namespace, pod.name, pod.uid, container, self._node, why)
        self._late_at = self._clock() + DEADLINE_SECONDS + LATE_SECONDS
        self._client.begin(self._asking)

    def end_container(self, pod: Pod, container: str, path: str) -> None:
        """End one container, whose cgroup is ``path``. Raises CannotDo."""
        self._killer.end_container(pod, container, path)

    def stop(self) -> None:
        """Evict no pod that is not evicted yet."""
        if self._asking is not None:
            self._client.stop()

    def poll(self) -> list[str]:
        """Take in what the API server said; what there is to say."""
        now = self._clock()
        self._refused = {uid: one for uid, one in self._refused.items() if now < one[0]}
        self._evicted = {uid: at for uid, at in self._evicted.items() if now < at + REFUSED_SECONDS}
        found = self._client.result()
        if found is None:
            return []
        ask, outcome = found
        self._asking = None
        self._take_in(ask, outcome, now)
        notes = "".join(f"; {note}" for note in outcome.notes)
        by_another = outcome.result == "evicted" and bool(outcome.why)
        said = _SAID["gone" if by_another else outcome.result]
        return [f"guard: {said.format(ask.key, outcome.why)}{notes}"]

    def _take_in(self, ask: EvictionRequest, outcome: EvictionOutcome, now: float) -> None:
        if outcome.result == "refused":
            self._refused[ask.uid] = (now + REFUSED_SECONDS, outcome.why)
            return
        self._evicted[ask.uid] = now + outcome.grace_seconds + ENDING_SECONDS
        if outcome.result == "evicted":
            self._budget.take()

    def descriptors(self) -> Sequence[int]:
        """Readable when the API server has said something."""
        return (self._client.descriptor,)


_SAID = {
    "evicted": "evicted pod {0}",
    "gone": "pod {0} is not evicted: {1}",
    "refused": "pod {0} is not evicted: {1}; while it stalls, its container is ended",
}
