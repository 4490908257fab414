"""Tells the service manager how the service is: ready, what it does, alive, ending.

One datagram a message, to the socket that systemd named when it started this process. Without
one nothing is sent. Source: sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress

LONGEST_FILE = 60.0
"""Seconds that reading one manifest at start may take on a slow machine."""
LONGEST_STATUS = 400
"""Characters of a status line."""


def extend_start(environ: Mapping[str, str]) -> None:
    """Ask the service manager for ``LONGEST_FILE`` seconds more before ``Notifier.ready``; nothing
    once a ``Notifier`` has taken the socket over. Never raises."""
    address = environ.get("NOTIFY_SOCKET")
    if address is not None:
        notifier = Notifier({"NOTIFY_SOCKET": address})
        notifier.extend()
        notifier.close()


class Notifier:
    """``ready``, ``status``, ``alive``, ``reloading`` and ``stopping``; none ever raises.

    The variables are taken out of ``environ``, so that no child tells anything in our name.
    """

    def __init__(
        self,
        environ: MutableMapping[str, str],
        *,
        pid: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._socket: socket.socket | None = None
        self._status = ""
        self._alive_at = float("-inf")
        address = environ.pop("NOTIFY_SOCKET", "")
        self.watchdog_seconds = _watchdog(environ, os.getpid() if pid is None else pid)
        if address[:1] not in ("/", "@"):
            return
        if address[0] == "@":
            address = f"\0{address[1:]}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._address = address

    def ready(self, status: str) -> None:
        """The start is over."""
        self._status = status
        self._send("READY=1", _line(status))

    def extend(self) -> None:
        """The start goes on for ``LONGEST_FILE`` seconds at most."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(LONGEST_FILE * 1e6)}")

    def status(self, status: str) -> None:
        """What is going on, in one sentence; the same again is not sent."""
        if status != self._status:
            self._status = status
            self._send(_line(status))

    def alive(self) -> None:
        """Feed the watchdog: sent at most four times in its interval. To be called from the
        loop itself, so that a loop that hangs is noticed."""
        if self.watchdog_seconds is None:
            return
        now = self._clock()
        if now >= self._alive_at + self.watchdog_seconds / 4:
            self._alive_at = now
            self._send("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """The end has begun."""
        self._send("STOPPING=1", _line(status))

    def close(self) -> None:
        """Nothing more is told."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *assignments: str) -> None:
        if self._socket is None:
            return
        with suppress(OSError):
            self._socket.sendto("\n".join(assignments).encode("utf-8", "replace"), self._address)


def _line(status: str) -> str:
    clean = "".join(char if char.isprintable() else " " for char in status)
    return f"STATUS={clean[:LONGEST_STATUS]}"


def _watchdog(environ: MutableMapping[str, str], pid: int) -> float | None:
    """The interval in seconds in which a sign of life is expected from this process."""
    micro, whose = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
    if whose and whose != str(pid):
        return None
    if not (micro.isascii() and micro.isdigit()) or not int(micro):
        return None
    return int(micro) / 1e6
