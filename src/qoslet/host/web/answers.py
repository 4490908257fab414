"""HTTP of the web page: GET and HEAD, and what every answer forbids a browser."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from qoslet.errors import QosletError
from qoslet.host.questions.http_server import HttpHandler
from qoslet.host.questions.request_server import Answer, Streamed
from qoslet.host.web.request import WebAnswer, WebRequest, parsed, refusal

Site = Callable[[WebRequest], WebAnswer]

SAFETY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer."""


class _SiteHandler(HttpHandler):
    """One request; ``server`` is the site."""

    stream: WebAnswer | None = None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request, or one to change something, in plain text."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._send(refusal(405, "this page only reads: GET and HEAD", Allow="GET, HEAD"), True)
        else:
            self._send(refusal(int(code), HTTPStatus(code).phrase), True)

    def answer(self, whole: bool) -> None:
        """What the site answers."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        if len(self.headers.get_all("Host", [])) > 1:
            self._send(refusal(400, "more than one host"), whole)
            return
        try:
            answer = self.server(parsed(self.path, headers))
        except QosletError as error:
            answer = refusal(503, str(error))
        if whole and answer.take is not None:
            self.stream = answer
        self._send(answer, whole)

    def _send(self, answer: WebAnswer, whole: bool) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.media)
        if answer.take is None:
            self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if whole:
            self.wfile.write(answer.body)

    def end_headers(self) -> None:
        """Those of every answer, too."""
        for name, value in SAFETY.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        super().end_headers()


def answers(site: Site) -> Answer:
    """What answers the text of a request with ``site``."""

    def answer(request: bytes) -> bytes | Streamed:
        handler = _SiteHandler(request, ("", 0), site)  # type: ignore[arg-type]
        sent = bytes(handler.wfile.getvalue())
        stream = handler.stream
        if stream is None or stream.take is None:
            return sent
        return Streamed(sent, stream.take)

    return answer
