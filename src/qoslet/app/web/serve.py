"""Serves the page of a node until somebody asks it to end: looks, audits, and publishes."""

from __future__ import annotations

import copy
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from qoslet.app.top.top import NodeTop
from qoslet.app.web.site import NodeSite
from qoslet.errors import BadInput, CannotDo, QosletError
from qoslet.host.linux.clock import Signals, WakingClock
from qoslet.host.questions.http_server import listen
from qoslet.host.questions.request_server import RequestServer, private_listener
from qoslet.host.state.folder import own_state_directory
from qoslet.host.web.access import Access, host_with_port, loopback_host
from qoslet.host.web.answers import answers
from qoslet.host.web.streams import Streams

if TYPE_CHECKING:
    import argparse

    from qoslet.app.audit.node_audit import NodeAudit
    from qoslet.core.audit.finding import AuditReport
    from qoslet.host.web.request import WebAnswer, WebRequest

AUDIT_SECONDS = 30.0
"""Time between two audits."""
SOCKET = "web.sock"


class Listening(Struct, frozen=True):
    """Where the page is: ``address`` for people, ``access`` who may see it, ``user`` who may
    connect, ``forget`` what to do at the end."""

    socket: socket.socket
    address: str
    access: Access
    user: int | None
    forget: Callable[[], None]
    note: str = ""


def listening(text: str) -> Listening:
    """Listen at ``unix:PATH`` or ``HOST:PORT``; empty: at a socket in the state directory. Raises
    BadInput, CannotDo."""
    if not text or text.startswith("unix:"):
        return _private(text.removeprefix("unix:"))
    found = listen(text, "--listen")
    host, port = found.getsockname()[:2]
    remote = host not in ("127.0.0.1", "::1")
    shown = f"[{host}]" if ":" in host else host
    token = secrets.token_urlsafe(32)
    access = Access(host_with_port(port, remote=remote), token, f"qoslet-{port}")
    note = "reached from other machines, and not encrypted" if remote else ""
    address = f"http://{shown}:{port}/?token={token}"
    return Listening(found, address, access, None, lambda: None, note)


def _private(path: str) -> Listening:
    if not path:
        try:
            folder = own_state_directory()
        except CannotDo as error:
            hint = "give its place: --listen unix:PATH"
            raise CannotDo(
                "no runtime directory for the socket", where=error.where, hint=hint
            ) from None
        os.makedirs(folder, 0o700, exist_ok=True)
        path = f"{folder}/{SOCKET}"
    folder, _, name = os.path.abspath(path).rpartition("/")
    if not name:
        raise BadInput("is a directory", where="--listen", hint="such as unix:/run/web.sock")
    _check_free(path)
    found = private_listener(folder or "/", name)
    inode = os.stat(path, follow_symlinks=False).st_ino

    def forget() -> None:
        with suppress(OSError):
            if os.stat(path, follow_symlinks=False).st_ino == inode:
                os.unlink(path)

    return Listening(found, f"unix:{path}", Access(loopback_host), os.geteuid(), forget)


def _check_free(path: str) -> None:
    """Raise CannotDo where another process listens at a path, BadInput where a file is there."""
    from stat import S_ISSOCK

    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except OSError:
        return
    if not S_ISSOCK(mode):
        raise BadInput("is there and not a socket", where=path, hint="name another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as peer:
        try:
            peer.connect(path)
        except OSError:
            return
    raise CannotDo("another process serves there", where=path, hint="name another with --listen")


class WebNode:
    """The node that options name, looked at for a site."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._top = NodeTop(args)
        self.changes = args.bundle is None
        self.site = NodeSite(args.interval if self.changes else None)
        self._audits: NodeAudit | None = None
        self._report: AuditReport | None = None
        self._audited_at: float | None = None
        self._audit_trouble = ""

    def look(self) -> None:
        """Look once, and audit where it is time. Raises QosletError."""
        rows = self._top.look()
        now = time.monotonic()
        if self._audited_at is None or (self.changes and now - self._audited_at >= AUDIT_SECONDS):
            self._audit()
            self._audited_at = now
        self.site.take(
            self._top.plan,
            rows,
            at=now,
            wall=self._top.made_at or time.time(),
            seconds=self._top.seconds,
            trouble="; ".join(filter(None, (self._top.trouble, self._audit_trouble))),
            report=self._report,
            agent=self._agent(),
            ended=self._top.ended,
        )

    def look_again(self) -> None:
        """Look; where that fails, the site says so and keeps what it has."""
        try:
            self.look()
        except QosletError as error:
            self.site.fail(str(error))

    def _audit(self) -> None:
        from qoslet.app.audit.node_audit import NodeAudit

        try:
            if self._audits is None:
                self._audits = NodeAudit(copy.copy(self._args), again=True)
            self._report, self._audit_trouble = self._audits.look().report, ""
        except QosletError as error:
            self._audit_trouble = f"audit: {error}"

    def _agent(self) -> Mapping[str, Any] | None:
        """What the agent of our own tree says; None where there is none."""
        from qoslet.app.inspect import pod_states

        if not self.changes or not self._args.cgroup_root:
            return None
        try:
            return pod_states(self._args.cgroup_root)
        except QosletError:
            return None


def serve(args: argparse.Namespace, announce: Callable[[str, str], None]) -> None:
    """Serve until a signal asks to end. ``announce`` is called once with the address and what there
    is to know of it. Raises QosletError."""
    with ExitStack() as ending, Signals() as signals:
        clock = WakingClock(signals)
        place = listening(args.listen)
        ending.callback(place.forget)
        ending.callback(place.socket.close)
        node = WebNode(args)
        node.look()
        site = node.site
        if node.changes:
            site.streams = Streams(site.event)
            ending.callback(site.streams.close)

        def answer(request: WebRequest) -> WebAnswer:
            return place.access.refuses(request) or site.answer(request)

        server = RequestServer(place.socket, answers(answer), user=place.user)
        ending.callback(server.close)
        announce(place.address, place.note)
        while clock.sleep(args.interval if node.changes else 3600.0):
            if node.changes:
                node.look_again()
                if site.streams is not None:
                    site.streams.publish()
