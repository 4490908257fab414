"""A declared machine with a kubelet's process, and a server that answers as a kubelet does."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.paths import DATA

CERTIFICATES = DATA / "kubelet"
METRICS = (
    b"# TYPE kubernetes_build_info gauge\n"
    b'kubernetes_build_info{build_date="",git_version="v1.33.4",go_version="go1.24",major="1",minor="33"} 1\n'
)
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def declare(
    machine: Path,
    *arguments: str,
    files: Mapping[str, str] | None = None,
    comm: str = "kubelet",
    pid: int = 812,
    cwd: str = "run/work",
) -> Path:
    """A process below ``machine`` whose root holds ``files``; ``cwd`` is its working directory."""
    root = machine / "rootfs"
    for name, text in (files or {}).items():
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (root / cwd).mkdir(parents=True, exist_ok=True)
    folder = machine / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "comm").write_text(f"{comm}\n")
    (folder / "cmdline").write_bytes(b"".join(f"{one}\0".encode() for one in (comm, *arguments)))
    (folder / "root").symlink_to(root)
    (folder / "cwd").symlink_to(root / cwd)
    return root


def pods(*names: str, node: str = "n1") -> bytes:
    """A PodList as a kubelet prints it."""
    items: list[dict[str, Any]] = [
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"nodeName": node, "containers": [{"name": "app", "image": "a"}]},
            "status": {"phase": "Running"},
        }
        for name in names
    ]
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items}).encode()


Reply = Callable[[BaseHTTPRequestHandler], None] | bytes | int
"""What a page does: answers a body, a status, or whatever it likes."""


@contextmanager
def kubelet_port(
    pages: Mapping[str, Reply], certificate: str = "", token: str = ""
) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """A port on 127.0.0.1 with ``pages``; with a ``certificate`` over TLS. What was asked is kept:
    the path and the Authorization header. With ``token`` all else than that is refused."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            authorization = self.headers.get("Authorization", "")
            asked.append((self.path, authorization))
            if token and authorization != f"Bearer {token}":
                self.answer(401, b"Unauthorized")
                return
            reply = pages.get(self.path, 404)
            if isinstance(reply, bytes):
                self.answer(200, reply)
            elif isinstance(reply, int):
                self.answer(reply, b"")
            else:
                reply(self)

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATES / certificate, CERTIFICATES / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
