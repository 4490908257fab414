"""Requests and answers of the web page, as values."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

Headers = Mapping[str, str]


class WebRequest(Struct, frozen=True):
    """A GET or HEAD. ``parts`` is the path, decoded part by part; ``headers`` have lower-case
    names."""

    path: str
    parts: tuple[str, ...]
    query: Mapping[str, str]
    headers: Headers

    @property
    def place(self) -> str:
        """The path with its query, without a token."""
        from urllib.parse import urlencode

        rest = {key: value for key, value in self.query.items() if key != "token"}
        return f"{self.path}?{urlencode(rest)}" if rest else self.path


class WebAnswer(Struct, frozen=True):
    """An answer; with ``take`` the connection stays open and is its from then on."""

    status: int
    media: str
    body: bytes
    headers: Headers = {}
    take: Callable[[socket.socket], None] | None = None


def parsed(target: str, headers: Headers) -> WebRequest:
    """The request of a target as it stands in the request line. Of a key that is given twice the
    last counts."""
    path, _, query = target.partition("?")
    parts = tuple(unquote(part) for part in path.split("/")[1:])
    return WebRequest(path, parts, dict(parse_qsl(query, keep_blank_values=True)), headers)


def refusal(status: int, text: str, **headers: str) -> WebAnswer:
    """A short answer that says why not."""
    return WebAnswer(status, "text/plain; charset=utf-8", f"{text}\n".encode(), headers)
