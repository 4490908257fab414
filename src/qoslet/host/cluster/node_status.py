"""Patches the status of a node on the API server, in a thread of its own."""

from __future__ import annotations

import time
from threading import Thread

from qoslet.core.api.schema import shown
from qoslet.core.guest.node_condition import PATCH_TYPE
from qoslet.core.node.cluster.messages import kind_of, refusal, status_of
from qoslet.errors import QosletError, reason_of
from qoslet.host.cluster.session import OpenSession, ReadLimits, body_of

_LIMITS = ReadLimits(seconds=10.0, size=16 << 20)


class NodeStatusWriter:
    """One patch at a time; matches ``agent.guest.ports.NodeStatusClient``. ``node`` is its name."""

    def __init__(self, open_session: OpenSession, node: str) -> None:
        self._open = open_session
        self._path = f"/api/v1/nodes/{node}/status"
        self._thread: Thread | None = None
        self._fault = ""

    def begin(self, body: bytes) -> None:
        """Send a strategic merge patch; none is under way."""
        assert self._thread is None
        self._thread = Thread(target=self._run, args=(body,), name="node-status", daemon=True)
        self._thread.start()

    def result(self, seconds: float = 0.0) -> str | None:
        """How the patch ended, once: why it was not done, or empty; None while it is under way, after
        at most so many seconds, or where there is none."""
        if self._thread is None:
            return None
        self._thread.join(seconds)
        if self._thread.is_alive():
            return None
        self._thread = None
        return self._fault

    def _run(self, body: bytes) -> None:
        try:
            self._fault = self._patched(body)
        except QosletError as error:
            self._fault = reason_of(error)
        except Exception as error:  # noqa: BLE001 - without a result the agent would wait
            self._fault = f"{type(error).__name__}: {shown(str(error), 120)}"

    def _patched(self, body: bytes) -> str:
        session = self._open()
        try:
            seconds = _LIMITS.silence_seconds
            response = session.send(
                "PATCH", self._path, body, silence_seconds=seconds, content_type=PATCH_TYPE
            )
            answer = body_of(response, _LIMITS, time.monotonic)
            if response.status == 200 and kind_of(answer) == "Node":
                return ""
            said = refusal(status_of(response.status, answer, response.retry_seconds))
            return f"{session.server} {said}"
        finally:
            session.close()
