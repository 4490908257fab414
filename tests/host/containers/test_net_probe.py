"""Probes over the network, against servers of this test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from qoslet.core.workload.hook_spec import Hook
from qoslet.core.workload.probe_spec import Grpc, HttpGet, Probe, TcpSocket
from qoslet.core.workload.probes.http import request
from qoslet.host.containers.net_probe import ask, timed_out


@contextmanager
def server(*answers: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that gives one answer a connection, and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    asked.append(connection.recv(65536))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], asked
        thread.join(5)


def answer(status: int, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", *headers, "", "body"]).encode()


def http(port: int, **fields: object) -> Probe:
    return Probe("liveness", http=HttpGet(port, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "good"),
    [(200, True), (204, True), (304, True), (399, True), (400, False), (404, False), (503, False)],
)
def test_the_status_decides(status: int, good: bool) -> None:
    with server(answer(status)) as (port, _):
        found = ask(http(port))
    said = "" if good else f"HTTP probe failed with statuscode: {status}"
    assert found == (good, said)


def test_the_request_has_the_probes_headers() -> None:
    headers = (("Host", "example.org"), ("X-A", "1"), ("X-A", "2"), ("Accept", ""))
    text = request(HttpGet(80, "/a b?c=d#e", headers=headers), "127.0.0.1").decode()
    assert text.startswith("GET /a%20b?c=d HTTP/1.1\r\nHost: example.org\r\n")
    assert text.count("Host:") == 1
    assert "X-A: 1\r\nX-A: 2\r\n" in text
    assert "Accept" not in text
    assert "User-Agent: kube-probe/" in text
    assert request(HttpGet(80), "::1").startswith(b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n")


def test_a_redirect_is_followed_on_the_same_host() -> None:
    with server(answer(302, "Location: /b"), answer(500)) as (port, asked):
        assert ask(http(port)) == (False, "HTTP probe failed with statuscode: 500")
    assert asked[1].startswith(b"GET /b ")
    with server(answer(302, "Location: http://elsewhere.invalid/")) as (port, _):
        assert ask(http(port)) == (True, "")


def test_redirects_end() -> None:
    with server(*[answer(301, "Location: /")] * 11) as (port, _):
        good, text = ask(http(port))
    assert not good
    assert "stopped after 10 redirects" in text


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_what_is_no_answer_fails(reply: bytes) -> None:
    with server(reply) as (port, _):
        good, text = ask(http(port))
    assert not good
    assert text.startswith(f'Get "http://127.0.0.1:{port}/": ')


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert ask(Probe("liveness", tcp=TcpSocket(port))) == (True, "")
    refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert ask(Probe("liveness", tcp=TcpSocket(port))) == (False, refused)
    assert ask(http(port)) == (False, f'Get "http://127.0.0.1:{port}/": {refused}')


def test_what_took_too_long_is_told_as_the_kubelet_does() -> None:
    probe = Probe("liveness", command=("sh", "-c", "x"), timeout=2.0)
    assert timed_out(probe) == 'command timed out: "sh -c x" timed out after 2s'
    assert timed_out(Probe("liveness", tcp=TcpSocket(1))) == "dial tcp 127.0.0.1:1: i/o timeout"
    assert "context deadline exceeded" in timed_out(http(1))


@contextmanager
def health(status: int | None) -> Iterator[int]:
    """A server of gRPC's own library; its service ``known`` has this status, None: no such call."""
    grpc = pytest.importorskip("grpc")

    class Health(grpc.GenericRpcHandler):  # type: ignore[misc, name-defined]
        def service(self, details: Any) -> Any:
            if status is None or details.method != "/grpc.health.v1.Health/Check":
                return None

            def check(request: bytes, context: Any) -> bytes:
                if request not in (b"", b"\x0a\x05known"):
                    context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
                return bytes((8, status)) if status else b""

            return grpc.unary_unary_rpc_method_handler(check)

    made = grpc.server(ThreadPoolExecutor(2), handlers=[Health()])
    port = made.add_insecure_port("127.0.0.1:0")
    made.start()
    try:
        yield port
    finally:
        made.stop(0).wait()


@pytest.mark.parametrize(
    ("status", "service", "good", "said"),
    [
        (1, "", True, ""),
        (1, "known", True, ""),
        (2, "", False, 'service unhealthy (responded with "NOT_SERVING")'),
        (0, "", False, 'service unhealthy (responded with "UNKNOWN")'),
        (1, "other", False, "error: health rpc did not succeed"),
        (1, "long" * 100, False, "error: health rpc did not succeed"),
        (None, "", False, "error: health rpc did not succeed"),
    ],
)
def test_a_health_service_is_asked(status: int | None, service: str, good: bool, said: str) -> None:
    with health(status) as port:
        assert ask(Probe("liveness", grpc=Grpc(port, service), timeout=5.0)) == (good, said)


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\xff" * 100])
def test_a_server_without_grpc_fails(reply: bytes) -> None:
    with server(reply) as (port, _):
        good, text = ask(Probe("liveness", grpc=Grpc(port)))
    assert not good
    assert text.startswith("error: ")
    assert "failed to connect" in ask(Probe("liveness", grpc=Grpc(port)))[1]


def hooked(port: int, **fields: object) -> Hook:
    return Hook("preStop", http=HttpGet(port, hook=True, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [200, 404, 503])
def test_any_answer_will_do_for_a_hook(status: int) -> None:
    """Source: kubelet lifecycle/handlers.go runHTTPHandler looks at no status."""
    with server(answer(status)) as (port, asked):
        assert ask(hooked(port)) == (True, "")
    assert b"User-Agent: kube-lifecycle/qoslet\r\n" in asked[0]


def test_a_hook_falls_back_to_plain_http_and_a_probe_does_not() -> None:
    headers = (("Authorization", "secret"), ("X", "y"))
    with server(answer(400), answer(200)) as (port, asked):
        assert ask(hooked(port, tls=True, headers=headers)) == (True, "")
    assert asked[0][0] == 22, "a handshake"
    assert asked[1].startswith(b"GET / HTTP/1.1\r\n")
    assert b"X: y" in asked[1]
    assert b"secret" not in asked[1]
    with server(answer(400)) as (port, _):
        good, said = ask(http(port, tls=True))
    assert not good
    assert said.endswith(": http: server gave HTTP response to HTTPS client")
