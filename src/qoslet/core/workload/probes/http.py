"""The HTTP of a probe: the request, and what an answer means. Pure.

Source: kubelet pkg/probe/http (DoHTTPProbe, headers, redirects stay on the same host),
pkg/kubelet/lifecycle/handlers.go (runHTTPHandler, isHTTPResponseError).
"""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin, urlsplit

from msgspec.structs import replace

from qoslet.core.workload.probe_spec import HttpGet

MAX_HEAD = 64 * 1024
"""Bytes of an answer up to its body; the body does not matter."""

MAX_REDIRECTS = 10

AGENT = "kube-probe/qoslet"
_HOOK_AGENT = "kube-lifecycle/qoslet"

_STATUS = re.compile(rb"HTTP/\d\.\d (\d{3})(?: [^\r\n]*)?\r?\n")
_REDIRECTS = (301, 302, 303, 307, 308)


def without_tls(asked: HttpGet) -> HttpGet:
    """The same request over plain HTTP, without what only TLS may carry."""
    headers = tuple(row for row in asked.headers if row[0].lower() != "authorization")
    return replace(asked, tls=False, headers=headers)


def address(host: str, port: int) -> str:
    """Host and port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def url_of(asked: HttpGet, host: str) -> str:
    """What is asked for, as a URL."""
    scheme = "https" if asked.tls else "http"
    return f"{scheme}://{address(host, asked.port)}{asked.path}"


def request(asked: HttpGet, host: str) -> bytes:
    """The request; headers of the probe go before those that it would have anyway."""
    # as Go writes a path: what a request line cannot have is escaped
    agent = _HOOK_AGENT if asked.hook else AGENT
    path = quote(asked.path.partition("#")[0], safe="/?&=%:@!$'()*+,;~-._[]")
    rows = [("Host", address(host, asked.port)), ("User-Agent", agent), ("Accept", "*/*")]
    given = {name.lower() for name, _ in asked.headers}
    kept = [row for row in rows if row[0].lower() not in given]
    # one that is empty is left out, as the kubelet does with these two
    own = [row for row in asked.headers if row[1] or row[0].lower() not in ("accept", "user-agent")]
    hosts = [row for row in own if row[0].lower() == "host"][-1:]
    rest = [row for row in own if row[0].lower() not in ("host", "connection")]
    lines = [f"{name}: {value}" for name, value in [*hosts, *kept, *rest, ("Connection", "close")]]
    text = "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""])
    return text.encode("utf-8", "replace")


def head_of(data: bytes) -> bytes | None:
    """The answer up to its body; None where it is not whole yet."""
    ends = [at for at in (data.find(b"\r\n\r\n"), data.find(b"\n\n")) if at >= 0]
    return data[: min(ends) + 2] if ends else None


def status_of(head: bytes) -> int | None:
    """The status code; None where it is no answer of HTTP."""
    found = _STATUS.match(head)
    return int(found.group(1)) if found else None


def judged(status: int, asked: HttpGet) -> tuple[bool, str]:
    """Whether a status is a success, and the words of one that is not. Of a hook any is."""
    if asked.hook or 200 <= status < 400:
        return True, ""
    return False, f"HTTP probe failed with statuscode: {status}"


def redirected(asked: HttpGet, host: str, head: bytes, status: int) -> tuple[HttpGet, str] | None:
    """Where an answer leads on the same host; None where it leads nowhere, or away."""
    if status not in _REDIRECTS:
        return None
    lines = head.decode("latin-1").splitlines()[1:]
    places = [
        line.partition(":")[2].strip() for line in lines if line.lower().startswith("location:")
    ]
    if not places or not places[0]:
        return None
    try:
        parts = urlsplit(urljoin(url_of(asked, host), places[0]))
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or parts.hostname != host.lower():
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    path = "".join(letter for letter in path if ord(letter) > 32 and ord(letter) != 127)
    return replace(asked, port=port, path=path, tls=parts.scheme == "https"), host
