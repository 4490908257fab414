"""Calls in both directions over one socket of a runtime: one thread reads and answers, others may call.

Source: containerd/ttrpc request.proto; google.rpc.Status codes.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from google.protobuf.message import DecodeError

from qoslet.core.api.schema import shown
from qoslet.errors import CannotDo
from qoslet.host.linux.processes.limit import start_thread
from qoslet.host.machine.thread_priority import ThreadPriority
from qoslet.host.nri.frames import (
    PLUGIN,
    REQUEST,
    RESPONSE,
    RUNTIME,
    BadFrame,
    FrameReader,
    Message,
    frames,
)
from qoslet.host.nri.pb import nri_pb2 as pb

SEND_SECONDS = 2
"""How long the runtime may take nothing of what is sent, until the connection is given up."""
JOIN_SECONDS = 5.0
"""How long ``close`` waits for an answer that is being made."""
_CHUNK = 1 << 16

Serve = Callable[[str, str, bytes], bytes]
"""Answers a call of the runtime: service, method, request to response; never raises."""


class Connection:
    """One connection; ``ended`` is told once, in the reading thread, why it is over (empty: closed by
    us)."""

    def __init__(self, sock: socket.socket, serve: Serve, ended: Callable[[str], None]) -> None:
        self._socket = sock
        self._serve = serve
        self._ended = ended
        self._sending = threading.Lock()
        self._calls = threading.Condition()
        self._stream = 1
        self._waiting: dict[int, bytes | None] = {}
        self._is_over = self._is_closed = False
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
        self._thread = threading.Thread(target=self._run, name="nri", daemon=True)
        try:
            start_thread(self._thread)
        except OSError:
            sock.close()
            raise

    def call(self, service: str, method: str, request: bytes, seconds: float) -> bytes:
        """Ask the runtime and wait. Raises CannotDo: it refuses, does not answer in time, or is gone."""
        with self._calls:
            number, self._stream = self._stream, self._stream + 2
            self._waiting[number] = None
        asked = pb.Request(
            service=service, method=method, payload=request, timeout_nano=int(seconds * 1e9)
        )
        try:
            self._send(Message(RUNTIME, number, REQUEST, asked.SerializeToString()))
            with self._calls:
                self._calls.wait_for(
                    lambda: self._waiting[number] is not None or self._is_over, seconds
                )
                answer = self._waiting[number]
        finally:
            with self._calls:
                del self._waiting[number]
        if answer is None:
            why = (
                "the connection was closed" if self._is_over else f"no answer within {seconds:g} s"
            )
            raise CannotDo(why, where=method)
        try:
            response = pb.Response.FromString(answer)
        except DecodeError as error:
            raise CannotDo(f"the answer cannot be read: {error}", where=method) from None
        if response.status.code:
            raise CannotDo(shown(response.status.message, 300) or "refused", where=method)
        return response.payload

    def close(self) -> None:
        """End it; from any thread but the reading one it is over afterwards."""
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_SECONDS)

    def _send(self, message: Message) -> None:
        """Write one message whole. Raises CannotDo where the runtime does not take it: then the
        connection is over."""
        data = frames(message)
        with self._sending:
            try:
                self._socket.sendall(data)
            except OSError as error:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                raise CannotDo(f"the runtime takes no message: {error.strerror}") from None

    def _run(self) -> None:
        """Read until it is over."""
        # the runtime waits for each answer, and creates no container meanwhile
        ThreadPriority()(True)
        reader, why = FrameReader(), "the runtime closed the connection"
        try:
            while data := self._socket.recv(_CHUNK):
                for message in reader.feed(data):
                    self._take(message)
        except (BadFrame, CannotDo) as error:
            why = str(error)
        except OSError as error:
            why = f"the connection broke: {error.strerror}"
        finally:
            self._socket.close()
            with self._calls:
                self._is_over = True
                self._calls.notify_all()
            self._ended("" if self._is_closed else why)

    def _take(self, message: Message) -> None:
        """Answer a call, or hand on an answer; anything else is left out. Raises CannotDo."""
        if message.connection == RUNTIME and message.kind == RESPONSE:
            with self._calls:
                if message.stream in self._waiting:
                    self._waiting[message.stream] = message.data
                    self._calls.notify_all()
        elif message.connection == PLUGIN and message.kind == REQUEST:
            try:
                asked = pb.Request.FromString(message.data)
                payload = self._serve(asked.service, asked.method, asked.payload)
            except DecodeError:
                # an empty answer of any method changes nothing
                payload = b""
            answer = pb.Response(payload=payload).SerializeToString()
            self._send(Message(PLUGIN, message.stream, RESPONSE, answer))
