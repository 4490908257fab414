"""What a keeper has in its state folder: where somebody removes it while the keeper lives, the keeper
makes it again, so that the next agent finds this one and starts no other beside it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable

from qoslet.host.keeper.launch import listening
from qoslet.host.state.folder import KEEPER_LOCK, KEEPER_SOCKET
from qoslet.host.state.moved import is_named, reopened
from qoslet.host.state.own_files import open_lock, put_in_place, unlink

TAKING_SECONDS = 1.0
"""How long an agent that looks for keepers may have the lock."""

_NEW_LOCK = f"{KEEPER_LOCK}.new"


class KeeperFiles:
    """The folder, the lock, the socket and the records of a keeper. ``lock`` and ``listener`` are
    its descriptors, whose numbers stay; ``save_absent`` writes records that are not there and
    tells how many, ``note`` gets a line for what was made again, ``check_seconds`` lie between two
    looks."""

    def __init__(
        self,
        folder: str,
        lock: int,
        listener: int,
        save_absent: Callable[[], int],
        note: Callable[[str], None],
        check_seconds: float,
    ) -> None:
        self._path = folder
        self._check_seconds = check_seconds
        self._save_absent = save_absent
        self._tell = note
        self._lock = lock
        self._listener = listener
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._socket = _inode(KEEPER_SOCKET, self._folder)
        self._next = 0.0

    def wait(self) -> float:
        """Seconds until the next look is due."""
        return max(0.0, self._next - time.monotonic())

    def check(self) -> bool:
        """Make again what is not there; False where another keeper has taken its place, so that
        this one is to leave the containers to it. What cannot be made is tried again later."""
        if self.wait():
            return True
        self._next = time.monotonic() + self._check_seconds
        try:
            return self._check()
        except OSError as error:
            self._note(f"cannot be made again: {error.strerror}")
            return True

    def leave(self) -> None:
        """Remove the socket, if it is this keeper's."""
        if self._socket and _inode(KEEPER_SOCKET, self._folder) == self._socket:
            os.unlink(KEEPER_SOCKET, dir_fd=self._folder)

    def _check(self) -> bool:
        """The same. Raises OSError."""
        self._folder, note = reopened(self._path, self._folder)
        if note:
            self._note(note)
        if not is_named(KEEPER_LOCK, self._folder, self._lock):
            if not self._taken():
                return False
            self._note("the keeper's lock was removed: it is there again")
        if _inode(KEEPER_SOCKET, self._folder) != self._socket:
            with listening(self._folder) as fresh:
                fresh.setblocking(False)
                os.dup2(fresh.fileno(), self._listener, inheritable=False)
            self._socket = _inode(KEEPER_SOCKET, self._folder)
            self._note("the keeper's socket was removed: it is there again")
        if count := self._save_absent():
            self._note(f"records of pods ({count}) were removed: they are written again")
        return True

    def _taken(self) -> bool:
        """Take the lock that has the name now; False where another keeper has it. Raises
        OSError."""
        lock = open_lock(_NEW_LOCK, self._folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        try:
            if not self._named():
                os.close(lock)
                lock = open_lock(KEEPER_LOCK, self._folder)
                _take(lock)
            # the same open file, so the lock is held as long as this number is open
            os.dup2(lock, self._lock, inheritable=False)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
            unlink(_NEW_LOCK, self._folder)
        return True

    def _named(self) -> bool:
        """Give the new lock its name, if that is free. It is locked by then: an agent that found it
        unlocked would start another keeper. Raises OSError."""
        named = f"{self._path}/{KEEPER_LOCK}"
        if os.path.lexists(named) and not os.path.isdir(named):
            return False
        put_in_place(_NEW_LOCK, KEEPER_LOCK, self._folder)
        return True

    def _note(self, line: str) -> None:
        self._tell(f"{self._path}: {line}")


def _take(lock: int) -> None:
    """Lock what an agent may have for a moment, while it looks for keepers. Raises BlockingIOError
    where somebody keeps it."""
    until = time.monotonic() + TAKING_SECONDS
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
        time.sleep(0.01)


def _inode(name: str, folder: int) -> int:
    """The inode of a file, 0 where there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
    except OSError:
        return 0
