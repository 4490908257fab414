"""Keeps the condition of the node on the API server, where the policy asks for it, and takes it away
again."""

from __future__ import annotations

from collections.abc import Callable

from qoslet.agent.guest.hour_budget import KeptTimes
from qoslet.agent.guest.ports import NodeStatusClient
from qoslet.core.guest.node_condition import NodeCondition, condition_body, removal_body

LEAST_SECONDS = 60.0
"""Between two writes at least: a condition that comes and goes is written once a minute."""
HEARTBEAT_SECONDS = 1800.0
"""How often a condition that is the same is written again."""
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 60.0, 1800.0
"""After a refusal; it doubles."""
END_SECONDS = 5.0
"""How long the end of the agent waits for the removal."""


class ConditionKeeper:
    """One for each guest. ``written`` keeps across agents that there is a condition to take away;
    ``clock`` gives monotonic seconds, ``wall`` those since the epoch, ``chance`` 0 to 1: nodes whose
    conditions change together write apart."""

    def __init__(
        self,
        client: NodeStatusClient,
        written: KeptTimes,
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._client, self._written = client, written
        self._clock, self._wall, self._chance = clock, wall, chance
        self._is_there = bool(written.load())
        self._known: NodeCondition | None = None
        self._sent: NodeCondition | None = None
        self._is_busy = False
        self._retry = RETRY_SECONDS
        self._due_at = float("-inf")
        self._next: float | None = None
        self.fault = ""

    def sync(self, wanted: NodeCondition | None) -> None:
        """Write what is ``wanted``, None for no condition, as soon as that is due."""
        now = self._clock()
        self._take_in(now)
        self._next = self._at(wanted, now)
        if self._next is None or self._is_busy or now < self._next:
            return
        if wanted is None:
            body = removal_body()
        else:
            is_transition = self._known is None or self._known.status != wanted.status
            body = condition_body(wanted, self._wall(), is_transition=is_transition)
            self._is_there = True
            self._written.save([now])
        self._sent, self._is_busy = wanted, True
        self._client.begin(body)

    def withdraw(self) -> str:
        """Take the condition away at the end; why that was not possible, or empty."""
        if not self._is_there:
            return ""
        fault: str | None = ""
        if self._is_busy:
            fault = self._client.result(END_SECONDS)
        if fault is not None:
            self._is_busy = False
            self._client.begin(removal_body())
            fault = self._client.result(END_SECONDS)
        if fault == "":
            self._forget()
            return ""
        return f"the condition of the node stays: {fault or 'no answer'}"

    def next_at(self) -> float | None:
        """When the next write is due, in monotonic seconds."""
        return self._next if not self._is_busy else self._clock() + 1.0

    def _at(self, wanted: NodeCondition | None, now: float) -> float | None:
        """When it is to be written."""
        if wanted is None:
            return max(now, self._due_at) if self._is_there else None
        if wanted == self._known:
            return self._due_at + HEARTBEAT_SECONDS - LEAST_SECONDS
        return max(now, self._due_at)

    def _take_in(self, now: float) -> None:
        """How the last write ended."""
        fault = self._client.result() if self._is_busy else None
        if fault is None:
            return
        self._is_busy, self.fault = False, fault and f"condition of the node: {fault}"
        if fault:
            self._due_at = now + self._retry * (1 + self._chance())
            self._retry = min(2 * self._retry, LONGEST_RETRY_SECONDS)
            return
        self._retry = RETRY_SECONDS
        self._due_at = now + LEAST_SECONDS * (1 + self._chance() / 2)
        self._known = self._sent
        if self._sent is None:
            self._forget()

    def _forget(self) -> None:
        self._is_there, self._known = False, None
        self._written.forget()
