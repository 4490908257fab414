"""Reach the keeper of a state folder, or start it: one at a time, by a lock that it inherits.

Its socket is made and listens before it is started, so that nobody waits for it: what is sent
meanwhile is there when it comes. It gets its own session, nothing of the environment, and no
descriptor but its lock, its socket and a file for its last words.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import sys
import time

import msgspec

from qoslet.errors import CannotDo
from qoslet.host.keeper.protocol import KeeperSettings, encode
from qoslet.host.linux.descriptors import usual_limit
from qoslet.host.linux.peer import peer_of
from qoslet.host.state.folder import KEEPER, KEEPER_ERRORS, KEEPER_LOCK, KEEPER_SOCKET
from qoslet.host.state.keepers import CHECK_SECONDS, end, keepers_of, wake
from qoslet.host.state.own_files import open_lock, put_in_place, unlink

BOOT = (
    "import sys; sys.modules['typing_extensions'] = None; sys.path += sys.argv[2:]; "
    "from qoslet.host.keeper.server import main; main()"
)
"""Without ``site``, and without the package of which msgspec uses one alias: half the time and
memory of a start."""

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WORDS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
ENDING_SECONDS = 1.0
"""How long a keeper may have the lock without listening: it is just ending."""


MENDING_SECONDS = 2 * CHECK_SECONDS
"""How long a keeper whose lock was removed may take to notice it."""


class Starter:
    """Reaches the keeper of ``setting.folder``. ``child`` is the one that this process started,
    ``boot`` the program that it runs, ``patience`` the seconds that a keeper has which lost its
    lock."""

    def __init__(
        self, setting: KeeperSettings, boot: str = BOOT, *, patience: float = MENDING_SECONDS
    ) -> None:
        self._setting = setting
        self._patience = patience
        self._boot = boot
        self.child: int | None = None
        self._made_lock, self._replaced_at = False, 0.0

    def running(self) -> bool:
        """Whether there is a keeper."""
        lock = self._lock()
        if lock is None:
            return True
        os.close(lock)
        return False

    def has_records(self) -> bool:
        """Whether a keeper has left pods to the next one."""
        try:
            with os.scandir(f"{self._setting.folder}/{KEEPER}") as entries:
                return any(True for _ in entries)
        except OSError:
            return False

    def connect(self) -> socket.socket:
        """A connection to the keeper, which is started if there is none. Raises ``CannotDo``."""
        deadline = time.monotonic() + ENDING_SECONDS
        folder = self._folder()
        try:
            while True:
                lock = self._lock()
                if lock is not None and self._others(lock):
                    os.close(lock)
                    deadline = time.monotonic() + ENDING_SECONDS
                    continue
                if lock is not None:
                    self._start(folder, lock)
                try:
                    return _connected(folder)
                except (ConnectionRefusedError, FileNotFoundError) as error:
                    if time.monotonic() >= deadline:
                        raise CannotDo(
                            "the keeper has its lock but does not listen",
                            where=self._setting.folder,
                            hint="find the process that has keeper.lock open (fuser, lsof)",
                        ) from error
                time.sleep(0.005)
        except OSError as error:
            raise CannotDo(
                f"cannot connect to the keeper: {error.strerror}", where=self._setting.folder
            ) from error
        finally:
            os.close(folder)

    def _others(self, lock: int) -> bool:
        """Whether a keeper lives whose lock was removed, so that this is another file: it gets a
        moment to take this one, then it is replaced. Its containers go on."""
        if not self._made_lock:
            return False
        others = keepers_of(self._setting.folder)
        wake(others)
        self._replaced_at = self._replaced_at or time.monotonic() + self._patience
        if not others or time.monotonic() >= self._replaced_at:
            end(self._setting.folder, others)
            self._made_lock, self._replaced_at = False, 0.0
            return False
        # given back by the caller, for the other keeper to take
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(0.05)
        return True

    def _folder(self) -> int:
        """The state folder, open, if it is private. Raises ``CannotDo``."""
        where = self._setting.folder
        try:
            descriptor = os.open(where, _FOLDER)
        except OSError as error:
            raise CannotDo(
                f"cannot create the state directory: {error.strerror}", where=where
            ) from error
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            os.close(descriptor)
            raise CannotDo(
                "other users can access the state directory",
                where=where,
                hint="it must belong to this user with mode 0700",
            )
        return descriptor

    def _lock(self) -> int | None:
        """The keeper's lock; None where a keeper has it. Raises ``CannotDo``."""
        path = f"{self._setting.folder}/{KEEPER_LOCK}"
        try:
            if not os.path.lexists(path) or os.path.isdir(path):
                self._made_lock = True
            lock = open_lock(path)
        except OSError as error:
            raise CannotDo(f"cannot lock for the keeper: {error.strerror}", where=path) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def _start(self, folder: int, lock: int) -> None:
        """Start a keeper, which inherits the lock. Raises OSError, ``CannotDo``."""
        opened = [lock]
        try:
            if not sys.executable:
                raise CannotDo("cannot start the keeper: sys.executable is empty")
            listener = listening(folder)
            opened.append(listener.detach())
            reader, writer = os.pipe2(os.O_CLOEXEC)
            opened.append(reader)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(encode(self._setting))
            # Beyond those that the child gets, so that none replaces another.
            high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in opened]
            opened += high
            self.collect()
            self.child = self._spawned(*high)
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _spawned(self, lock: int, listener: int, setting: int) -> int:
        """The number of a new keeper."""
        words = f"{self._setting.folder}/{KEEPER_ERRORS}"
        with usual_limit():
            return os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", self._boot, self._setting.root, *_packages()],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, setting, 0),
                    (os.POSIX_SPAWN_OPEN, 1, words, _WORDS, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                    (os.POSIX_SPAWN_DUP2, lock, 3),
                    (os.POSIX_SPAWN_DUP2, listener, 4),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=[one for one in signal.Signals if one not in _NEVER_SET],
            )

    def collect(self) -> bool:
        """Take note that the keeper that this process started has ended; whether it has."""
        if self.child is None:
            return True
        try:
            if os.waitpid(self.child, os.WNOHANG) == (0, 0):
                return False
        except ChildProcessError:
            pass
        self.child = None
        return True

    def runtime_error(self) -> str:
        """What the keeper that ended last had to say; empty for nothing."""
        try:
            with open(f"{self._setting.folder}/{KEEPER_ERRORS}", "rb") as file:
                lines = file.read()[-4096:].decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


_NEVER_SET = (signal.SIGKILL, signal.SIGSTOP)


def _packages() -> list[str]:
    """Where this package and msgspec are, for a Python that looks nowhere."""
    ours = os.path.abspath(__file__)
    for _ in __name__.split("."):
        ours = os.path.dirname(ours)
    theirs = os.path.dirname(os.path.dirname(msgspec.__file__ or ""))
    return list(dict.fromkeys([ours, theirs]))


def listening(folder: int) -> socket.socket:
    """A new socket in the folder in place of an old one: private before it listens."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        new = f"{KEEPER_SOCKET}.new"
        unlink(new, folder)
        # By way of /proc, as the path of a socket has 107 bytes at most.
        listener.bind(f"/proc/self/fd/{folder}/{new}")
        os.chmod(f"/proc/self/fd/{folder}/{new}", 0o600)
        listener.listen(16)
        put_in_place(new, KEEPER_SOCKET, folder)
    except BaseException:
        listener.close()
        raise
    return listener


def _connected(folder: int) -> socket.socket:
    """A connection to who listens in the folder. Raises OSError, ``CannotDo``."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{KEEPER_SOCKET}")
        user = peer_of(connection).uid
        if user != os.geteuid():
            raise CannotDo(f"the keeper's socket belongs to user {user}", where=KEEPER_SOCKET)
    except BaseException:
        connection.close()
        raise
    return connection
