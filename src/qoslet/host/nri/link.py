"""The plugin's connection with its runtime, made again whenever it is lost."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

from qoslet.errors import CannotDo, QosletError
from qoslet.host.linux.peer import peer_of
from qoslet.host.nri.session import PluginHandler, RuntimeSession

SOCKET = "/var/run/nri/nri.sock"
"""Where runtimes listen for plugins."""
FIRST_SECONDS, LONGEST_SECONDS = 0.1, 5.0
"""Between two tries; the pause doubles."""
CONNECT_SECONDS = 2.0

SWITCH_ON = (
    "containerd 2.0 and later have NRI on; in 1.7 set disable = false below "
    '[plugins."io.containerd.nri.v1.nri"] in /etc/containerd/config.toml and restart containerd'
)


def connected(path: str) -> socket.socket:
    """A socket of the runtime. Raises CannotDo: there is none, nobody answers, or its owner may be
    anybody."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(CONNECT_SECONDS)
        sock.connect(path)
        sock.settimeout(None)
        user = peer_of(sock).uid
        if user not in (0, os.geteuid()):
            raise CannotDo(f"user {user} listens there, must be root's", where=path)
    except OSError as error:
        sock.close()
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            raise CannotDo("no runtime with NRI listens", where=path, hint=SWITCH_ON) from None
        hint = "run it as root" if isinstance(error, PermissionError) else ""
        message = f"the runtime does not answer: {error.strerror or error}"
        raise CannotDo(message, where=path, hint=hint) from None
    except CannotDo:
        sock.close()
        raise
    return sock


def check(path: str) -> None:
    """Raise CannotDo with what to do where no runtime with NRI listens."""
    with closing(connected(path)):
        return


class NriLink:
    """Matches ``agent.nri.ports.RuntimeLink``; used by one thread. ``log`` and ``wake`` are called in
    the session's thread: ``wake`` when the connection is lost."""

    def __init__(
        self,
        path: str,
        root: str,
        index: str,
        handler: PluginHandler,
        log: Callable[[str], None],
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._log = log
        self._wake = wake
        self._clock = clock
        self._open = partial(RuntimeSession, root=root, index=index, handler=handler, log=log)
        self._session: RuntimeSession | None = None
        self._over = threading.Event()
        self._said = ""
        self._pause, self._due_at = FIRST_SECONDS, float("-inf")

    @property
    def is_connected(self) -> bool:
        """Whether the runtime has us registered."""
        return self._session is not None and not self._over.is_set()

    def connect(self) -> str:
        """Register where there is no connection, and it is time; what is new of it."""
        if self.is_connected:
            if self._clock() >= self._due_at:
                self._pause, self._said = FIRST_SECONDS, ""
            return ""
        if self._session is not None:
            self._session.close()
            self._session = None
        now = self._clock()
        if now < self._due_at:
            return ""
        self._due_at = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        over = self._over = threading.Event()
        try:
            session = self._open(connected(self._path), ended=partial(self._ended, over))
        except (QosletError, OSError) as error:
            line = f"not registered: {error}"
            is_new, self._said = line != self._said, line
            return line if is_new else ""
        self._session = session
        self._due_at = now + LONGEST_SECONDS
        return f"registered with the runtime at {self._path}"

    def _ended(self, over: threading.Event, why: str) -> None:
        """The connection is over."""
        over.set()
        if why and self._session is not None:
            self._log(f"the connection with the runtime is lost: {why}")
        self._wake()

    def next_at(self) -> float | None:
        """When ``connect`` is due, in monotonic seconds."""
        return None if self.is_connected else self._due_at

    def close(self) -> None:
        """End the registration."""
        if self._session is not None:
            self._session.close()
            self._session = None
