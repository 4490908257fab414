"""Asks a page at a unix socket."""

from __future__ import annotations

import socket
from http.client import HTTPConnection


def ask(path: str, target: str) -> tuple[int, bytes]:
    """The status and body of a page."""
    connection = HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(60)
    connection.sock.connect(path)
    connection.request("GET", target)
    answer = connection.getresponse()
    return answer.status, answer.read()
