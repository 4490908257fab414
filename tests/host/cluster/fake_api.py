"""An API server over HTTP on 127.0.0.1: ``ApiModel`` behind the real protocol, with faults to order."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from tests.core.node.cluster.api_model import ApiModel, status
from tests.core.node.cluster.eviction_model import EvictionModel
from tests.host.kubelet.fake_node import CERTIFICATES
from tests.paths import DATA

SIGNED, LOCAL = CERTIFICATES / "signed.pem", DATA / "cluster" / "local.pem"
"""Certificates of the server: for ``n1``, by the authority of ``ca.pem``; for 127.0.0.1, by itself."""


class FakeApi:
    """``model`` may be changed under ``lock``. Of ``faults`` each request takes one: a status, or
    ``reset``, ``half``, ``slow``, ``silent``, ``early``, ``garbage``, ``mute`` (a watch that tells
    nothing), ``lost`` (done, and no answer), ``done CODE`` (done, and this status), ``html`` (the page
    of a proxy with 200), ``bookmark`` (one comes first on a watch);
    ``requests`` are the path and query of each, with their ``methods`` and ``headers``; ``patches`` the
    kind and the body of patches. With ``evictions`` that answers what is no list or watch of all pods.
    Its clock is ``ahead_seconds`` ahead."""

    def __init__(self, model: ApiModel) -> None:
        self.model = model
        self.evictions: EvictionModel | None = None
        self.methods: list[str] = []
        self.headers: list[list[tuple[str, str]]] = []
        self.patches: list[tuple[str, bytes]] = []
        self.lock = threading.Condition()
        self.faults: deque[int | str] = deque()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.token = ""
        self.retry_after = ""
        self.ahead_seconds = 0.0
        self.epoch = 0
        self.pages: dict[str, bytes] = {}
        self.stopping = False
        self.host = "127.0.0.1"
        self.port = 0

    def change(self, act: Callable[[ApiModel], object]) -> None:
        """Change the model, and wake the watches."""
        with self.lock:
            act(self.model)
            self.lock.notify_all()

    def hang_up(self) -> None:
        """End the watches that are open."""
        with self.lock:
            self.epoch += 1
            self.lock.notify_all()

    def kubeconfig(
        self,
        folder: Path,
        token_file: Path | None = None,
        *,
        embedded: bool = False,
        user: dict[str, Any] | None = None,
        **cluster: object,
    ) -> Path:
        """A kubeconfig for it, with the token in a file; ``user`` is another one."""
        given = {"tokenFile": str(token_file)} if token_file is not None else {"token": self.token}
        user = given if user is None else user
        named = {
            "server": f"https://{self.host}:{self.port}",
            "certificate-authority": str(CERTIFICATES / "ca.pem"),
            "tls-server-name": "n1",
            **cluster,
        }
        named = {field: value for field, value in named.items() if value is not None}
        if embedded:
            data = base64.b64encode((CERTIFICATES / "ca.pem").read_bytes()).decode()
            del named["certificate-authority"]
            named["certificate-authority-data"] = data
            for field, name in (("client-certificate", "signed.pem"), ("client-key", "key.pem")):
                text = (CERTIFICATES / name).read_bytes()
                user[f"{field}-data"] = base64.b64encode(text).decode()
        path = folder / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": named}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "one",
        }
        path.write_text(yaml.safe_dump(document))
        return path


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: FakeApi

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        api = self.api
        with api.lock:
            api.requests.append((parts.path, query))
            api.methods.append(self.command)
            api.headers.append(self.headers.items())
            fault = api.faults.popleft() if api.faults else ""
            api.lock.notify_all()
        if api.token and self.headers.get("Authorization", "").lower() != f"bearer {api.token}":
            fault = 401
        if isinstance(fault, int):
            self._answer(fault, status(fault, "no"), api.retry_after)
        elif fault == "html":
            self._answer(200, b"<html>log in</html>")
        elif fault == "reset":
            self._reset()
        elif fault == "silent":
            time.sleep(2)
        elif self.command == "PATCH":
            api.patches.append((self.headers.get("Content-Type", ""), body))
            self._answer(200, b'{"kind": "Node", "apiVersion": "v1"}')
        elif parts.path in api.pages:
            self._answer(200, api.pages[parts.path])
        elif api.evictions is not None and parts.path != "/api/v1/pods":
            with api.lock:
                code, body = api.evictions.answer(self.command, parts.path, query, body)
            if fault == "lost":
                self._reset()
            elif fault.startswith("done "):
                code = int(fault.removeprefix("done "))
                self._answer(code, status(code, "no"), api.retry_after)
            else:
                self._answer(code, body, fault=fault)
        elif "watch" in query:
            self._watch(query, fault)
        else:
            with api.lock:
                code, body = api.model.list_page(query)
            self._answer(code, body, fault=fault)

    def date_time_string(self, timestamp: float | None = None) -> str:
        now = time.time() if timestamp is None else timestamp
        return super().date_time_string(now + self.api.ahead_seconds)

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def do_PATCH(self) -> None:
        self.do_GET()

    def _answer(self, code: int, body: bytes, retry: str = "", fault: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if retry:
            self.send_header("Retry-After", retry)
        if 300 <= code < 400:
            self.send_header("Location", f"https://127.0.0.1:{self.api.port}/elsewhere")
        self.end_headers()
        if fault == "half":
            self.wfile.write(body[: len(body) // 2])
            self._reset()
        elif fault == "slow":
            for at in range(len(body)):
                self.wfile.write(body[at : at + 1])
                time.sleep(0.05)
        else:
            self.wfile.write(body)

    def _watch(self, query: dict[str, str], fault: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        api, sent = self.api, 0
        epoch = api.epoch
        if fault == "bookmark":
            seen = {"metadata": {"resourceVersion": query["resourceVersion"]}}
            self._chunk(json.dumps({"type": "BOOKMARK", "object": seen}).encode() + b"\n")
        while not api.stopping and epoch == api.epoch:
            with api.lock:
                # without the bookmark of the end of what there is
                lines = api.model.watch({**query, "allowWatchBookmarks": "false"})
                if fault == "mute" or (len(lines) <= sent and fault != "early"):
                    api.lock.wait(0.05)
                    continue
            for one in lines[sent:]:
                sent += 1
                if fault == "half":
                    self._chunk(one[: len(one) // 2])
                    self._reset()
                    return
                self._chunk(b'{"type": "ADDED", "obj\n' if fault == "garbage" else one)
            if fault == "early":
                break
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _reset(self) -> None:
        """End the connection as a machine does that goes down."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.socket.shutdown(self.connection, socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left is no fault."""


class _Server6(_Server):
    address_family = socket.AF_INET6


@contextmanager
def fake_api(
    model: ApiModel | None = None, certificate: Path = SIGNED, *, ipv6: bool = False
) -> Iterator[FakeApi]:
    """A server with TLS that runs while the context does."""
    api = FakeApi(model or ApiModel())
    handler = type("Handler", (_Handler,), {"api": api})
    server = _Server6(("::1", 0), handler) if ipv6 else _Server(("127.0.0.1", 0), handler)
    api.host = "[::1]" if ipv6 else "127.0.0.1"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, CERTIFICATES / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.stopping = True
        server.shutdown()
        server.server_close()
        thread.join()


def node_list(*names: str) -> bytes:
    """A NodeList with these nodes."""
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    items = [
        {
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "nodeInfo": {
                    "kubeletVersion": "v1.36.2",
                    "containerRuntimeVersion": "containerd://2.2.0",
                    "operatingSystem": "linux",
                    "kernelVersion": "6.12.0",
                    "osImage": "Debian GNU/Linux 13 (trixie)",
                    "architecture": "amd64",
                },
            },
        }
        for name in names
    ]
    head = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    return json.dumps({**head, "items": items}).encode()
