"""What an agent and the keeper of its containers say to each other.

Each message is four bytes of length, big-endian, and as much JSON, in both directions. Requests
are numbered by who sends them and answered in their order; news come unasked. The first two
messages (``Hello``, ``Welcome``) stay as they are in all versions.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec

VERSION = 1

LARGEST = 8 * 1024 * 1024
"""Bytes of one message."""

HELD_BACK = 64 * 1024 * 1024
"""Bytes that wait for a peer which does not read, before it is given up."""

_LENGTH = struct.Struct(">I")
_CHUNK = 256 * 1024
_MAX_PIECES = 16


class KeeperSettings(Struct, frozen=True):
    """What a keeper is started with. ``folder`` is the state folder of ``root``, ``logs`` that of
    the logs; ``mounts`` as ``layout.layout_of`` takes them; ``size``, ``files`` and ``rate`` as
    ``LogLimits``. ``linger`` is how many seconds it waits for a first client. ``oom_ends_scopes``:
    systemd made the containers' cgroups, and its scopes have an ``OOMPolicy``. ``agent`` is the process that
    starts it and keeps the scopes; 0: none."""

    root: str
    folder: str
    logs: str
    hierarchy: str
    mounts: dict[str, str]
    size: int
    files: int
    rate: int
    backoff: Backoff
    linger: float = 10.0
    oom_ends_scopes: bool = False
    agent: int = 0


class Request(Struct, frozen=True, tag_field="do", omit_defaults=True):
    """What an agent asks for."""


class Hello(Request, tag="hello", frozen=True):
    """The first message of an agent."""

    version: int
    root: str


class StartPod(Request, tag="start", frozen=True, omit_defaults=True):
    """Begin a pod. ``digest`` is that of ``spec`` with its problems."""

    id: int
    spec: PodSpec
    cgroups: dict[str, str]
    digest: str


class StopPod(Request, tag="stop", frozen=True):
    """Begin to end a pod; ``grace`` in seconds."""

    id: int
    uid: str
    grace: float


class RestartContainer(Request, tag="restart", frozen=True):
    """Begin to end a container that is started again at once."""

    id: int
    uid: str
    container: str


class UpdatePod(Request, tag="update", frozen=True):
    """Use ``spec`` for later starts."""

    id: int
    spec: PodSpec


class RemovePod(Request, tag="forget", frozen=True):
    """Drop a pod."""

    id: int
    uid: str


class KeeperMessage(Struct, frozen=True, tag_field="is", omit_defaults=True):
    """What a keeper tells. ``done`` is the last request of this agent that it counts in."""


class Welcome(KeeperMessage, tag="welcome", frozen=True, omit_defaults=True):
    """The answer to ``Hello``; with an ``error`` nothing follows. ``pid`` is the keeper's."""

    version: int
    pid: int
    error: str = ""


class PodChanged(KeeperMessage, tag="kept", frozen=True, omit_defaults=True):
    """A pod that is new or different."""

    held: RuntimePod
    states: tuple[ContainerState, ...]
    done: int = 0


class PodRemoved(KeeperMessage, tag="gone", frozen=True, omit_defaults=True):
    """A pod that is not kept any more."""

    uid: str
    done: int = 0


class RequestsDone(KeeperMessage, tag="done", frozen=True, omit_defaults=True):
    """Requests up to ``done`` were dealt with; all pods were told once."""

    done: int = 0


class LogMessage(KeeperMessage, tag="said", frozen=True):
    """A line for people. ``id``: the request that was refused. ``at``: when it came to be, in
    wall-clock seconds; 0: now."""

    line: str
    id: int = 0
    at: float = 0.0


PodRequest = StartPod | StopPod | RestartContainer | UpdatePod | RemovePod
Requests = Hello | PodRequest
KeeperMessages = Welcome | PodChanged | PodRemoved | RequestsDone | LogMessage

requests = msgspec.json.Decoder(Requests)
news = msgspec.json.Decoder(KeeperMessages)
encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class MessageTooLong(Exception):
    """A message beyond ``LARGEST``, after which nothing can be read."""


class Peer:
    """One end of a connection. Nothing waits: what cannot be sent is kept. ``open``: more may
    come; an end that does not hear us any more may still have said something before."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self._in = bytearray()
        self._out = bytearray()
        self._deaf = False
        self.open = True

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent."""
        return len(self._out)

    def send(self, message: Struct) -> None:
        """Put a message on its way. Raises ValueError for one that is too long."""
        data = encode(message)
        if len(data) > LARGEST:
            raise ValueError(f"{len(data)} bytes, at most {LARGEST} can be sent")
        if self._deaf:
            return
        self._out += _LENGTH.pack(len(data)) + data
        if len(self._out) > HELD_BACK:
            self.open = False

    def flush(self) -> None:
        """Send what can be sent now."""
        try:
            while self._out:
                del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            return
        except OSError:
            self._deaf = True
            self._out.clear()

    def fill(self) -> bool:
        """Receive what is there, at most a bounded piece; whether there was any."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._in += data
        self.open = self.open and bool(data)
        return bool(data)

    def arrived(self) -> Iterator[bytes]:
        """The messages that have come, from a bounded number of pieces: the rest waits for the next
        call, so that one who sends without end does not hold its reader. Raises ``MessageTooLong``."""
        for _ in range(_MAX_PIECES):
            if not self.fill():
                return
            while (data := self.next()) is not None:
                yield data

    def next(self) -> bytes | None:
        """The next message that was received whole. Raises ``MessageTooLong``."""
        if len(self._in) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._in)
        if length > LARGEST:
            raise MessageTooLong
        end = _LENGTH.size + length
        if len(self._in) < end:
            return None
        data = bytes(self._in[_LENGTH.size : end])
        del self._in[:end]
        return data

    @property
    def waiting(self) -> bool:
        """Whether a whole message is there already."""
        if len(self._in) < _LENGTH.size:
            return False
        return len(self._in) >= _LENGTH.size + int(_LENGTH.unpack_from(self._in)[0])

    def close(self) -> None:
        """End the connection."""
        self.open = False
        self.socket.close()
