"""Who may see the web page: by the name that the browser asked for, and by a secret.

Any user of a machine reaches its loopback, so TCP takes a token; a browser that has shown it is given
a cookie with another secret, and the token leaves the address. A page of another site can have a
browser ask, by a name that points here or across origins, so both are refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address

from qoslet.host.web.request import WebAnswer, WebRequest, refusal

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def loopback_host(host: str) -> bool:
    """Whether a Host header names the loopback, with any port: that of a forwarded socket."""
    name, colon, port = host.rpartition(":")
    if colon and port.isascii() and port.isdigit():
        host = name
    return host.casefold() in LOOPBACK


def host_with_port(port: int, *, remote: bool) -> Callable[[str], bool]:
    """Which Host headers are right for a TCP ``port``: loopback, and where ``remote`` numeric
    addresses, which no name of another site can stand for."""

    def allowed(host: str) -> bool:
        name, _, own = host.rpartition(":")
        if own != str(port):
            return False
        if name.casefold() in LOOPBACK:
            return True
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return remote

    return allowed


class Access:
    """Judges requests. ``host`` says which Host headers are right; without ``token`` no secret is
    asked for, since the socket is private."""

    def __init__(self, host: Callable[[str], bool], token: str = "", name: str = "qoslet") -> None:
        self._host = host
        self._token = token.encode()
        self._cookie = name
        self._session = secrets.token_urlsafe(32)

    def refuses(self, request: WebRequest) -> WebAnswer | None:
        """Why a request is not answered, or where it has to go first; None: it may."""
        if not self._host(request.headers.get("host", "")):
            return refusal(403, "unknown host: use the address that qoslet web printed")
        site = request.headers.get("sec-fetch-site", "none")
        navigates = request.headers.get("sec-fetch-mode") == "navigate"
        if site in ("cross-site", "same-site") and not navigates:
            return refusal(403, "asked for by another site")
        if not self._token:
            return None
        given = request.query.get("token")
        if given is not None:
            return self._with_token(request, given)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.casefold() == "bearer" and self._is_token(bearer):
            return None
        if self._has_session(request.headers.get("cookie", "")):
            return None
        return refusal(401, "open the address that qoslet web printed, with its token")

    def _with_token(self, request: WebRequest, given: str) -> WebAnswer:
        if not self._is_token(given):
            return refusal(403, "wrong token: use the address that qoslet web printed")
        cookie = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        # one slash: two would be the name of another host
        place = f"/{request.place.lstrip('/')}"
        headers = {"Location": place, "Set-Cookie": cookie}
        return WebAnswer(303, "text/plain; charset=utf-8", b"", headers)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token)

    def _has_session(self, text: str) -> bool:
        try:
            found = SimpleCookie(text).get(self._cookie)
        except CookieError:
            return False
        given = found.value if found is not None else ""
        return secrets.compare_digest(given.encode(), self._session.encode())
