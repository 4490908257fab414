"""A probe over the network, in a process of its own that may take as long as it likes: whoever
began it ends it in time. Matches what the kubelet's probes say of the same errors.

Source: kubelet pkg/probe/http, pkg/probe/tcp; Go's net package for the words.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from qoslet.core.workload.probe_spec import Grpc, HttpGet, Probe, Question
from qoslet.core.workload.probes.grpc_health import MAX_FRAME, Answer, question
from qoslet.core.workload.probes.http import (
    MAX_HEAD,
    MAX_REDIRECTS,
    address,
    head_of,
    judged,
    redirected,
    request,
    status_of,
    url_of,
    without_tls,
)

_NO_TLS = "server gave HTTP response to HTTPS client"

LOOPBACK = "127.0.0.1"
"""The address of a pod that has the host's network, or one with the loopback interface only."""


def ask(probe: Question, own: str = LOOPBACK) -> tuple[bool, str]:
    """Make a probe; ``own`` is the pod's address. Whether it succeeded, and what there is to say."""
    if probe.http is not None:
        return _get_or_fall_back(probe.http, probe.http.host or own, probe.timeout)
    if probe.grpc is not None:
        return _check(probe.grpc, own, probe.timeout)
    assert probe.tcp is not None
    try:
        _connect(probe.tcp.host or own, probe.tcp.port, probe.timeout).close()
    except OSError as error:
        return False, str(error)
    return True, ""


def timed_out(probe: Question, own: str = LOOPBACK) -> str:
    """What there is to say of a probe that took too long."""
    if probe.http is not None:
        url = url_of(probe.http, probe.http.host or own)
        late = "(Client.Timeout exceeded while awaiting headers)"
        return f'Get "{url}": context deadline exceeded {late}'
    if probe.tcp is not None:
        return f"dial tcp {address(probe.tcp.host or own, probe.tcp.port)}: i/o timeout"
    if probe.grpc is not None:
        return f"timeout: health rpc did not complete within {probe.timeout:g}s"
    words = " ".join(probe.command)
    return f'command timed out: "{words}" timed out after {probe.timeout:g}s'


def _connect(host: str, port: int, timeout: float) -> socket.socket:
    """Connect. Raises OSError, in Go's words."""
    where = f"dial tcp {address(host, port)}"
    try:
        # as bytes it needs no codec, which would be loaded for it
        name: Any = host.encode() if host.isascii() else host
        return socket.create_connection((name, port), timeout)
    except TimeoutError as error:
        raise OSError(f"{where}: i/o timeout") from error
    except socket.gaierror as error:
        raise OSError(f"dial tcp: lookup {host}: {error.strerror}") from error
    except OSError as error:
        said = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(f"{where}: connect: {said[:1].lower()}{said[1:]}") from error


def _get_or_fall_back(asked: HttpGet, host: str, timeout: float) -> tuple[bool, str]:
    """Ask; a hook that gets plain HTTP where it asked with TLS asks without, as the kubelet does."""
    good, text = _get(asked, host, timeout)
    if not good and asked.hook and asked.tls and text.endswith(_NO_TLS):
        plain = without_tls(asked)
        if _get(plain, host, timeout)[0]:
            return True, ""
    return good, text


def _get(asked: HttpGet, host: str, timeout: float) -> tuple[bool, str]:
    """Ask, and follow where the answer leads on the same host; ``timeout`` is for all of it."""
    first, deadline = url_of(asked, host), time.monotonic() + timeout
    for _ in range(MAX_REDIRECTS + 1):
        try:
            head = _answer(asked, host, deadline)
        except TimeoutError:
            return False, timed_out(Probe("liveness", http=asked), host)
        except (OSError, ValueError) as error:
            return False, f'Get "{url_of(asked, host)}": {error}'
        status = status_of(head)
        if status is None:
            return False, f'Get "{url_of(asked, host)}": malformed HTTP response {head[:60]!r}'
        then = redirected(asked, host, head, status)
        if then is None:
            return judged(status, asked)
        asked, host = then
    return False, f'Get "{first}": stopped after {MAX_REDIRECTS} redirects'


def _check(asked: Grpc, host: str, timeout: float) -> tuple[bool, str]:
    """Ask the health service."""
    deadline, answer = time.monotonic() + timeout, Answer()
    try:
        stream = _connect(host, asked.port, timeout)
    except OSError as error:
        where = address(host, asked.port)
        return False, f'error: failed to connect service "{where}": {error}'
    with stream:
        try:
            stream.sendall(question(asked, host))
            while True:
                stream.settimeout(_left(deadline))
                piece = stream.recv(MAX_FRAME)
                for step, data in answer.steps(piece):
                    if step == "done":
                        return answer.judged()
                    stream.sendall(data)
                if not piece:
                    return answer.judged()
        except TimeoutError:
            return False, timed_out(Probe("liveness", grpc=asked, timeout=timeout))
        except (OSError, ValueError) as error:
            return False, f"error: health rpc failed: {error}"


def _left(deadline: float) -> float:
    """Seconds until a time. Raises TimeoutError where it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _answer(asked: HttpGet, host: str, deadline: float) -> bytes:
    """What a server answers, up to the body. Raises OSError, ValueError."""
    with _connect(host, asked.port, _left(deadline)) as plain:
        stream = plain
        if asked.tls:
            # 4 MB of OpenSSL, in this process only; the certificate does not matter
            import ssl

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            try:
                stream = context.wrap_socket(plain, server_hostname=host)
            except ssl.SSLError as error:
                if error.reason == "WRONG_VERSION_NUMBER":
                    raise ValueError(f"http: {_NO_TLS}") from error
                raise
        stream.sendall(request(asked, host))
        data = b""
        while (head := head_of(data)) is None:
            if len(data) > MAX_HEAD:
                raise ValueError("the header is too long")
            stream.settimeout(_left(deadline))
            piece = stream.recv(16384)
            if not piece:
                raise ValueError("EOF")
            data += piece
        return head
