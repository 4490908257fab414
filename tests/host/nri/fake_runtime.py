"""The runtime's side of NRI over a socket, as bytes of its own making; ``rpc`` asks as containerd does."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

from google.protobuf.message import Message

from qoslet.host.nri.pb import nri_pb2 as pb

PLUGIN, RUNTIME = 1, 2
POD = pb.PodSandbox(id="s1", name="web", uid="u1", namespace="d")
ROOT = "/kubepods"


def packed(connection: int, stream: int, kind: int, data: bytes) -> bytes:
    """A message in one frame, as the protocol says."""
    body = struct.pack(">IIBB", len(data), stream, kind, 0) + data
    return struct.pack(">II", connection, len(body)) + body


def asked(method: str, payload: bytes, service: str = "nri.pkg.api.v1alpha1.Plugin") -> bytes:
    return pb.Request(service=service, method=method, payload=payload).SerializeToString()


def container(name: str = "app", id: str = "c1", limit: int = 0, **unified: str) -> pb.Container:
    resources = pb.LinuxResources(
        unified={key.replace("_", "."): value for key, value in unified.items()}
    )
    if limit:
        resources.memory.limit.value = limit
    linux = pb.LinuxContainer(resources=resources, cgroups_path=f"{ROOT}/podu1/{id}")
    return pb.Container(id=id, pod_sandbox_id="s1", name=name, linux=linux)


class FakeRuntime:
    """One end of a connection, read by a thread. ``refuse``: what RegisterPlugin is answered with."""

    def __init__(self, sock: socket.socket, *, refuse: str = "") -> None:
        self.socket = sock
        self.refuse = refuse
        self.silent = False
        self.registered = threading.Event()
        self.plugin = pb.RegisterPluginRequest()
        self.is_over = threading.Event()
        self._answers: dict[int, bytes] = {}
        self._changed = threading.Condition()
        self._stream = 1
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def _read(self) -> None:
        streams = {PLUGIN: b"", RUNTIME: b""}
        try:
            while True:
                connection, length = struct.unpack(">II", self._exactly(8))
                assert length <= (4 << 20) + 10
                streams[connection] += self._exactly(length)
                while len(data := streams[connection]) >= 10:
                    size, stream, kind, _ = struct.unpack(">IIBB", data[:10])
                    if len(data) < 10 + size:
                        break
                    streams[connection] = data[10 + size :]
                    self._take(connection, stream, kind, data[10 : 10 + size])
        except (EOFError, OSError):
            self.is_over.set()
            with self._changed:
                self._changed.notify_all()

    def _take(self, connection: int, stream: int, kind: int, data: bytes) -> None:
        if connection == PLUGIN:
            assert kind == 2
            with self._changed:
                self._answers[stream] = data
                self._changed.notify_all()
            return
        assert kind == 1
        request = pb.Request.FromString(data)
        assert request.service == "nri.pkg.api.v1alpha1.Runtime"
        if self.silent:
            return
        response = pb.Response()
        assert request.method == "RegisterPlugin", (
            "a runtime that is asked for updates may deadlock"
        )
        self.plugin = pb.RegisterPluginRequest.FromString(request.payload)
        if self.refuse:
            response.status.code, response.status.message = 2, self.refuse
        self.registered.set()
        self.socket.sendall(packed(RUNTIME, stream, 2, response.SerializeToString()))

    def send(self, method: str, payload: bytes) -> int:
        """Ask the plugin; the number of the call."""
        number, self._stream = self._stream, self._stream + 2
        self.socket.sendall(packed(PLUGIN, number, 1, asked(method, payload)))
        return number

    def answer(self, number: int, seconds: float = 10.0) -> bytes:
        """What came for a call. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: number in self._answers or self.is_over.is_set(), seconds
            ):
                raise TimeoutError
            response = pb.Response.FromString(self._answers.pop(number))
        assert response.status.code == 0, "an error would fail the container"
        return response.payload

    def rpc(self, method: str, request: Message, kind: type[Message]) -> Message:
        return kind.FromString(self.answer(self.send(method, request.SerializeToString())))

    def created(self, one: pb.Container, pod: pb.PodSandbox = POD) -> dict[str, str]:
        request = pb.CreateContainerRequest(pod=pod, container=one)
        answer = pb.CreateContainerResponse.FromString(
            self.answer(self.send("CreateContainer", request.SerializeToString()))
        )
        return dict(answer.adjust.linux.resources.unified)

    def close(self) -> None:
        self.socket.close()
        self._thread.join(5)


def until(ready: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.005)
