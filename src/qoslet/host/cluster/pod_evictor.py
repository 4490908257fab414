"""Evicts a pod through the API server in a thread of its own, within a deadline."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from threading import Event, Lock, Thread

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.schema import shown
from qoslet.core.node.cluster.eviction_messages import EvictionRequest
from qoslet.core.node.cluster.pod_eviction import (
    DEADLINE_SECONDS,
    Call,
    EvictionOutcome,
    Pause,
    PodEviction,
    Reply,
)
from qoslet.errors import QosletError, reason_of
from qoslet.host.cluster.session import OpenSession, ReadLimits, Session, body_of

_LEAST_SECONDS = 1.0
_BYTES = 16 << 20
_END_SECONDS = 1.0


class EvictionLimits(Struct, frozen=True):
    """``seconds`` for an eviction, ``request_seconds`` for each of its requests; waits are scaled."""

    seconds: float = DEADLINE_SECONDS
    request_seconds: float = 5.0
    wait_scale: float = 1.0


class PodEvictor:
    """One eviction at a time; matches ``agent.guest.ports.EvictionClient``. ``namespace`` has the
    Leases."""

    def __init__(
        self, open_session: OpenSession, namespace: str, limits: EvictionLimits | None = None
    ) -> None:
        self._open, self._namespace = open_session, namespace
        self._limits = limits or EvictionLimits()
        self._lock, self._stopping, self._is_closed = Lock(), Event(), False
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when there is a ``result``."""
        self._result: tuple[EvictionRequest, EvictionOutcome] | None = None
        self._thread: Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an eviction is under way."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, ask: EvictionRequest) -> None:
        """Begin an eviction; none may be under way."""
        assert not self.is_busy
        self._stopping = Event()
        given = ask, self._stopping
        self._thread = Thread(target=self._run, args=given, name="eviction", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no further request of the eviction that is under way."""
        self._stopping.set()

    def result(self) -> tuple[EvictionRequest, EvictionOutcome] | None:
        """How the last one ended, once."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        with self._lock:
            found, self._result = self._result, None
            return found

    def close(self) -> None:
        """End, whatever the server does: no further request is sent."""
        if self._is_closed:
            return
        self.stop()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)
        with self._lock:
            self._is_closed = True
            os.close(self.descriptor)

    def _run(self, ask: EvictionRequest, stopping: Event) -> None:
        requests = _Requests(self._open, self._limits, stopping)
        try:
            outcome = requests.run(PodEviction(ask, self._namespace))
        except Exception as error:  # noqa: BLE001 - without a result the agent would wait
            why = f"{type(error).__name__}: {shown(str(error), 120)}"
            outcome = EvictionOutcome("refused", why)
        finally:
            requests.close()
        with self._lock:
            self._result = ask, outcome
            if not self._is_closed:
                os.eventfd_write(self.descriptor, 1)


class _Requests:
    """The requests of one eviction."""

    def __init__(self, open_session: OpenSession, limits: EvictionLimits, stopping: Event) -> None:
        self._open, self._limits, self._stopping = open_session, limits, stopping
        self._until = time.monotonic() + limits.seconds
        # the server's clock, once it has told it: those of nodes may differ by more than a Lease lasts
        self._epoch = time.time() - time.monotonic()
        self._session: Session | None = None

    def run(self, eviction: PodEviction) -> EvictionOutcome:
        """Send and wait as the eviction asks, to its end."""
        course = eviction.course()
        step = next(course)
        while not self._stopping.is_set():
            if isinstance(step, Pause):
                # agents that were refused together do not ask together
                seconds = step.seconds * (1 + random.random() / 2)
                self._stopping.wait(seconds * self._limits.wait_scale)
                reply = Reply(0)
            else:
                reply = self._answer(step)
            left = self._until - time.monotonic()
            try:
                wall = self._epoch + time.monotonic()
                step = course.send(replace(reply, left=left, wall=wall))
            except StopIteration as end:
                outcome: EvictionOutcome = end.value
                return outcome
        return EvictionOutcome("refused", "the policy is another one, or the agent ends")

    def _answer(self, call: Call) -> Reply:
        """The answer; a 401 is asked again once with credentials that are read anew."""
        reply = self._ask(call)
        if reply.code == 401:
            self.close()
            reply = self._ask(call)
        return reply

    def _ask(self, call: Call) -> Reply:
        left = max(_LEAST_SECONDS, self._until - time.monotonic())
        seconds = min(left, self._limits.request_seconds)
        try:
            session = self._session = self._session or self._open()
            if call.method == "GET":
                response = session.get(call.path, dict(call.query), silence_seconds=seconds)
            else:
                response = session.send(call.method, call.path, call.body, silence_seconds=seconds)
            try:
                limits = ReadLimits(seconds, _BYTES, seconds)
                body = body_of(response, limits, time.monotonic)
                if response.date is not None:
                    self._epoch = response.date - time.monotonic()
                return Reply(response.status, body, response.retry_seconds)
            finally:
                response.close()
        except QosletError as error:
            self.close()
            return Reply(0, fault=reason_of(error))

    def close(self) -> None:
        """Close the session; the next request opens another one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
