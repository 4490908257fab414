"""Drives an eviction over a server made of values, with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator

from msgspec.structs import replace

from qoslet.core.node.cluster.eviction_messages import EvictionRequest
from qoslet.core.node.cluster.pod_eviction import (
    DEADLINE_SECONDS,
    Call,
    EvictionOutcome,
    Pause,
    PodEviction,
    Reply,
)
from tests.core.node.cluster.api_model import status
from tests.core.node.cluster.eviction_model import EvictionModel

Course = Generator[Call | Pause, Reply, EvictionOutcome]
Fault = Callable[[Call], Reply | None]
"""What comes instead of the server's answer."""


def no_fault(call: Call) -> Reply | None:
    return None


class Driver:
    """Drives one eviction with a clock of its own. ``lost`` says of which calls the server's answer is
    lost after it has acted; ``instead`` comes in its place."""

    def __init__(
        self,
        model: EvictionModel,
        ask: EvictionRequest,
        fault: Fault = no_fault,
        lost: Callable[[Call], bool] = lambda call: False,
        wall: float = 1000.0,
    ) -> None:
        self.model, self.fault, self.lost = model, fault, lost
        self.course = PodEviction(ask, "qoslet").course()
        self.began = self.wall = wall
        self.calls: list[Call] = []
        self.instead = Reply(0, fault="lost")
        self.outcome: EvictionOutcome | None = None
        self.step: Call | Pause = next(self.course)

    def once(self) -> None:
        """One request, or one wait."""
        if isinstance(self.step, Pause):
            self.wall += self.step.seconds
            reply = Reply(0)
        else:
            self.wall += 0.01
            reply = self._reply(self.step)
        left = DEADLINE_SECONDS - (self.wall - self.began)
        try:
            self.step = self.course.send(replace(reply, left=left, wall=self.wall))
        except StopIteration as end:
            self.outcome = end.value

    def _reply(self, call: Call) -> Reply:
        self.calls.append(call)
        found = self.fault(call)
        if found is not None:
            return found
        code, body = self.model.answer(call.method, call.path, dict(call.query), call.body)
        return self.instead if self.lost(call) else Reply(code, body)

    def run(self) -> EvictionOutcome:
        while self.outcome is None:
            self.once()
        return self.outcome

    @property
    def evictions(self) -> int:
        return sum(one.path.endswith("/eviction") for one in self.calls)


def web(count: int = 3, **fields: int) -> EvictionModel:
    """A Deployment of Ready pods."""
    model = EvictionModel(**fields)  # type: ignore[arg-type]
    for number in range(count):
        model.put(f"web-{number}")
    return model


def on(end: str, *replies: Reply) -> Fault:
    """These answers to the calls whose path ends so, one after the other; then the server's."""
    left = list(replies)

    def fault(call: Call) -> Reply | None:
        return left.pop(0) if left and call.path.endswith(end) else None

    return fault


def refused(code: int, retry: float = 0.0) -> Reply:
    return Reply(code, status(code, "no"), retry)
