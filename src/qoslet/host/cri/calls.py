"""Calls of a runtime over its socket, each with a deadline; what it answers is checked, and that it does
not answer is said once.

Source: CRI services RuntimeService and ImageService, versions v1 and v1alpha2 (same messages).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine
from functools import cache
from typing import Any, Protocol, TypeVar

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
from google.protobuf.message import Message
from grpc import aio

from qoslet.core.api.schema import shown
from qoslet.errors import QosletError
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.validation import LONGEST, BadMessage, parsed

VERSIONS = ("v1", "v1alpha2")
"""In the order in which they are tried."""

CALL_SECONDS = 30.0
"""How long a call may take that only asks."""
WORK_SECONDS = 120.0
"""How long one may take that makes or ends something, as the kubelet's runtimeRequestTimeout."""
PULL_SECONDS = 600.0
SLOW_SECONDS = 10.0
"""How long a runtime may take until it is said that it does not answer."""

CONNECT_SECONDS = 10.0
"""How long a runtime may take to answer a connection: on a busy machine it takes seconds. gRPC calls
this ``min_reconnect_backoff_ms``; the pause between two attempts is that of ``initial`` and ``max``.

Source: gRPC doc/connection-backoff.md MIN_CONNECT_TIMEOUT."""

RETRIES = 0
"""gRPC repeats a call that a closing connection (GOAWAY) did not take, without a pause until its deadline, and
keeps 300 MiB of attempts a second (seen with 1.85). Here who asks looks again.

Source: gRPC proposal A6, transparent retries."""

_OPTIONS = (
    ("grpc.max_receive_message_length", 4 * LONGEST),
    ("grpc.max_send_message_length", LONGEST),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", RETRIES),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", int(1000 * CONNECT_SECONDS)),
    ("grpc.max_reconnect_backoff_ms", 500),
)

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_ASKING = threading.Lock()


def answered(question: Coroutine[Any, Any, T]) -> T:
    """What a question comes to that code without an event loop asks; other threads wait for their turn.

    All go through one loop that stays open: gRPC has one queue of events in a process, and what it tells late, as
    of a call that was given up, goes to the loop that asked. Where that is closed, the loop that takes it up fails,
    prints a traceback, and leaves the events behind it."""
    with _ASKING:
        return _runner().run(question)


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()


class CallFailed(QosletError):
    """A runtime said no. ``code`` is gRPC's name (``NOT_FOUND``)."""

    def __init__(self, message: str, code: str, *, where: str = "") -> None:
        super().__init__(message, where=where)
        self.code = code


class Away(CallFailed):
    """Nobody answers: whether the call was heard is not known."""


class Calls:
    """One runtime. To be used in one event loop. ``version`` is of the API."""

    def __init__(self, endpoint: str, version: str = "v1") -> None:
        self.endpoint = endpoint
        self.version = version
        self._channel = aio.insecure_channel(endpoint, options=_OPTIONS)

    async def open(self) -> pb.VersionResponse:
        """Find out which version of the API is spoken; what the runtime says of itself. Raises
        ``CallFailed``."""
        for version in VERSIONS:
            self.version = version
            try:
                return await self("Version", pb.VersionRequest(version="0.1.0"), pb.VersionResponse)
            except CallFailed as error:
                if error.code != "UNIMPLEMENTED" or version == VERSIONS[-1]:
                    raise
        raise AssertionError("no version")

    async def __call__(
        self,
        method: str,
        request: Message,
        kind: type[M],
        seconds: float = CALL_SECONDS,
        service: str = "RuntimeService",
    ) -> M:
        """Ask and wait. Raises ``CallFailed``, ``BadMessage``."""
        call: aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/runtime.{self.version}.{service}/{method}"
        )
        try:
            data = await call(request.SerializeToString(), timeout=seconds)
        except aio.AioRpcError as error:
            raise self._failed(method, error) from None
        try:
            return parsed(kind, data)
        except BadMessage as error:
            error.where = f"{self.endpoint}: {method}"
            raise

    async def events(self) -> AsyncIterator[pb.ContainerEventResponse]:
        """What happens to containers from now on. Raises ``CallFailed``, ``BadMessage``."""
        call: aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(
            f"/runtime.{self.version}.RuntimeService/GetContainerEvents"
        )
        stream = call(b"")
        try:
            async for data in stream:
                yield parsed(pb.ContainerEventResponse, data)
        except aio.AioRpcError as error:
            raise self._failed("GetContainerEvents", error) from None
        finally:
            stream.cancel()

    def _failed(self, method: str, error: aio.AioRpcError) -> CallFailed:
        """What a call came to, in one line."""
        code = error.code()
        words = shown(" ".join((error.details() or "").split()), 500)
        where = f"{self.endpoint}: {method}"
        if code == grpc.StatusCode.UNAVAILABLE:
            # the details name the address up to three times before what the kernel said
            why = (
                words.rpartition(" error: ")[2] if words.startswith("failed to connect") else words
            )
            return Away(f"no answer: {why}", code.name, where=where)
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return Away("no answer in time", code.name, where=where)
        return CallFailed(words or code.name, code.name, where=where)

    async def close(self) -> None:
        """Hang up."""
        await self._channel.close(grace=None)


class NoteLog(Protocol):
    """Takes a line for the surface."""

    def __call__(self, line: str, over: str = "") -> None:
        """Keep it, once; ``over`` is a line that is not true any more."""


class SilentRuntime:
    """Whether the runtime at ``endpoint`` is known to be silent. ``slow_seconds`` is how long an answer
    may take before that is said; the call goes on."""

    def __init__(self, endpoint: str, note: NoteLog, slow_seconds: float) -> None:
        self._endpoint, self._note, self._slow_seconds = endpoint, note, slow_seconds
        self._over = f"{endpoint}: the container runtime answers again"
        self._said = ""

    def begin(self, why: str) -> None:
        """Say that no answer comes, and why."""
        line = f"{why}; running containers stay and are checked when it answers again"
        if self._said:
            return
        self._note(line, self._over)
        self._said = line

    def end(self) -> None:
        """Say that it answers again, if anything was said."""
        if self._said:
            self._note(self._over, self._said)
            self._said = ""

    async def watched(self, asked: Coroutine[Any, Any, None]) -> None:
        """Wait for an answer, and say so where it takes long. Raises what ``asked`` raises."""
        task = asyncio.ensure_future(asked)
        done, _ = await asyncio.wait({task}, timeout=self._slow_seconds)
        if not done:
            self.begin(f"{self._endpoint}: no answer for {self._slow_seconds:g} s")
        await task
        self.end()
