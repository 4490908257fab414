"""What containers print: taken from their pipes, kept as a kubelet keeps it.

``FOLDER/NAMESPACE_NAME_UID/CONTAINER/RESTART.log`` has the entries of one run of a container,
and is begun anew when it is large: the older part has the time in its name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from qoslet.core.workload.cri_log import STREAMS, entries, last, path_of
from qoslet.host.linux.descriptors import are_few
from qoslet.host.linux.procfs import listed

CHUNK = 64 * 1024
"""Bytes that are taken from a pipe at a time; as many as it holds by default."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


ROOM_SECONDS = 1.0
"""How long what is known of all logs together counts, but for those that are begun."""


class LogLimits(Struct, frozen=True):
    """Bounds of one container's logs. ``size`` is ``containerLogMaxSize`` in bytes, ``files``
    ``containerLogMaxFiles``; the defaults are the kubelet's. ``rate`` is how many bytes of
    entries a container may write in a second before it has to wait. ``total`` bounds the logs of
    all containers of a root in bytes."""

    size: int = 10 * 1024 * 1024
    files: int = 5
    rate: int = 32 * 1024 * 1024
    total: int = 1024 * 1024 * 1024


def stamp(nanoseconds: int) -> bytes:
    """RFC 3339 with nine digits, in UTC, of nanoseconds since 1970."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % rest


class LogFile:
    """The log of one run of a container. Nothing that happens to it raises: ``note`` is told,
    and what cannot be written is left out. ``room`` makes room for a new file and gives its
    largest size, given whether it has an older part now."""

    def __init__(
        self,
        path: str,
        limits: LogLimits,
        note: Callable[[str], None],
        room: Callable[[bool], int] | None = None,
    ) -> None:
        self.path = path
        self._room = room or (lambda _: limits.size)
        self._most = limits.size
        self._limits = limits
        self._note = note
        self._file = -1
        self._size = 0

    def begin(self) -> None:
        """Make the file: there is one for each run, also for one that prints nothing."""
        try:
            if self._file < 0:
                self._open()
        except OSError as error:
            self._note(f"logs are lost: {self.path}: {error.strerror}")
        if are_few():
            self.close()

    def write(self, text: bytes) -> None:
        """Append whole entries."""
        try:
            if text:
                self._find()
            while text:
                room = self._most - self._size
                cut = len(text) if len(text) <= room else text.rfind(b"\n", 0, max(0, room)) + 1
                if not cut and self._size:
                    self._rotate()
                    continue
                cut = cut or text.index(b"\n") + 1
                self._append(text[:cut])
                text = text[cut:]
        except OSError as error:
            self._note(f"logs are lost: {self.path}: {error.strerror}")
        if are_few():
            self.close()

    def _find(self) -> None:
        """Open the file where it is not open, or somebody has removed it since."""
        if self._file >= 0 and not os.fstat(self._file).st_nlink:
            self.close()
            self._note(f"{self.path}: the log was removed: it begins again")
        if self._file < 0:
            self._open()

    def _append(self, text: bytes) -> None:
        """One write; of one that was torn off the whole entries stay."""
        written = os.write(self._file, text)
        if written < len(text):
            written = text.rfind(b"\n", 0, written) + 1
            os.ftruncate(self._file, self._size + written)
            self._note(f"logs are lost: {self.path}: the file system is full")
        self._size += written

    def _open(self, *, rotated: bool = False) -> None:
        """Begin or take up the file."""
        make_private(os.path.dirname(self.path))
        self._most = min(self._limits.size, self._room(rotated))
        self._file = os.open(self.path, _NEW, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        """Put the file aside and begin it anew; the oldest ones go."""
        put_aside(self.path, self._limits.files)
        self.close()
        self._open(rotated=True)

    def close(self) -> None:
        """Close the file; a later ``write`` opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def put_aside(path: str, files: int) -> str:
    """Rename a log, so that it can be begun anew; its new name. With it ``files`` stay, the oldest
    ones go. Raises OSError."""
    name = f"{path}.{_moment()}"
    os.rename(path, name)
    aside = sorted(rotated(path))
    for old in aside[: max(0, len(aside) - files + 1)]:
        unlink(old)
    return name


def _moment() -> str:
    """The time as a part of a file name, which sorts by time: a kubelet's, and nanoseconds."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(seconds))}.{rest:09d}"


def rotated(path: str) -> list[str]:
    """The older parts of a log, in no order."""
    folder, _, name = path.rpartition("/")
    return [f"{folder}/{one}" for one in listed(folder) if one.startswith(f"{name}.")]


def unlink(path: str) -> None:
    """Remove a file if it is there and can be removed."""
    with suppress(OSError):
        os.unlink(path)


def _make_fifo(path: str) -> None:
    """A named pipe in place of an old one. Raises OSError with its path."""
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.mkfifo(path, 0o600)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


class Stream:
    """One pipe of a container, as it fills."""

    def __init__(self, descriptor: int, name: bytes, log: LogFile) -> None:
        self.descriptor = descriptor
        self._name = name
        self._log = log
        self._rest = b""

    def take(self) -> int:
        """Move what the pipe holds, at most ``CHUNK``, into the log: how many bytes were written
        there; -1 where there is nothing now, -2 where nothing will come any more."""
        try:
            data = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return -1
        except OSError:
            return -2
        if not data:
            return -2
        text, self._rest = entries(stamp(time.time_ns()), self._name, self._rest + data)
        self._log.write(text)
        return len(text)

    def close(self, *, drain: bool) -> None:
        """Close it; with ``drain`` take what is left before, at most what a pipe can hold."""
        for _ in range(1 + LARGEST_PIPE // CHUNK if drain else 0):
            if self.take() < 0:
                break
        self._log.write(last(stamp(time.time_ns()), self._name, self._rest))
        self._rest = b""
        os.close(self.descriptor)


LARGEST_PIPE = 1024 * 1024
"""What an unprivileged process may make of its pipe (fs.pipe-max-size)."""


class Pipes:
    """The output of one run: named pipes, so that who comes after us can read on. ``writers``
    are for the container, open for reading too: it never meets a broken pipe."""

    def __init__(self, folder: str, name: str, log: LogFile) -> None:
        self.log = log
        self._paths = [f"{folder}/{name}.{short}" for short in ("out", "err")]
        self.streams: list[Stream] = []

    def make(self, owner: tuple[int, int]) -> list[int]:
        """New pipes of ``owner`` (uid, gid), who may open ``/dev/stdout`` again; the writers,
        which the caller closes. Raises OSError; nothing is left open then."""
        writers: list[int] = []
        self.log.begin()
        try:
            for path in self._paths:
                _make_fifo(path)
                self._read(path)
                writers.append(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
                if owner[0] != os.geteuid():
                    os.fchown(writers[-1], *owner)
        except OSError:
            for writer in writers:
                os.close(writer)
            self.close()
            raise
        return writers

    def take_up(self) -> None:
        """Read on where another has stopped; what is not there any more is left out."""
        for path in self._paths:
            with suppress(OSError):
                self._read(path)

    def _read(self, path: str) -> None:
        """The reading side of a pipe."""
        name = STREAMS[self._paths.index(path)]
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.streams.append(Stream(descriptor, name, self.log))

    def leave(self, *, drain: bool = False) -> None:
        """Close our side; who comes next reads on."""
        for stream in self.streams:
            stream.close(drain=drain)
        self.streams.clear()
        self.log.close()

    def close(self) -> None:
        """Take what is left and remove the pipes."""
        self.leave(drain=True)
        for path in self._paths:
            unlink(path)


class ContainerLogs:
    """The logs of all pods below ``folder``, which only its owner can read."""

    def __init__(self, folder: str, limits: LogLimits | None = None) -> None:
        self.folder = folder
        self._limits = limits or LogLimits()
        self._room: tuple[float, int, int] = (0.0, 0, 0)

    @property
    def rate(self) -> int:
        """Bytes of entries per second and container."""
        return self._limits.rate

    def path(self, key: str, uid: str, container: str, number: int) -> str:
        """The file of a container's run; ``number`` counts restarts from 0."""
        return f"{self.folder}/{path_of(key, uid)}/{container}/{number}.log"

    def file(self, path: str, note: Callable[[str], None]) -> LogFile:
        """The log at ``path``; those before the last one of that container go, as a kubelet
        keeps one dead container of each."""
        for old in outdated(path):
            unlink(old)
        return LogFile(path, self._limits, note, self._make_room)

    def drop(self, key: str, uid: str) -> None:
        """Remove all logs of a pod."""
        remove_tree(f"{self.folder}/{path_of(key, uid)}")

    def _make_room(self, rotated: bool) -> int:
        """How large the next log may become. What is there is looked at for an older part, and once in
        ``ROOM_SECONDS``: a pod may begin a thousand."""
        until, half, growing = self._room
        now = time.monotonic()
        if rotated or now >= until:
            half, growing = room(self.folder, self._limits)
            until = now + ROOM_SECONDS
        else:
            growing += 1
        self._room = until, half, growing
        return largest(self._limits, half, growing)


def make_room(folder: str, limits: LogLimits) -> int:
    """Make room below ``folder``: how large a log may become there."""
    return largest(limits, *room(folder, limits))


def largest(limits: LogLimits, half: int, growing: int) -> int:
    """How large each of ``growing`` logs may become that share ``half``."""
    return min(limits.size, max(CHUNK, half // max(1, growing)))


def room(folder: str, limits: LogLimits) -> tuple[int, int]:
    """Half of what all logs below ``folder`` may have together, for those that grow, and how many
    these are. Of the older parts the oldest ones go until they fit into the other half. All have at
    most a quarter of their file system."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return limits.total, 1
    half = min(limits.total, disk.f_frsize * disk.f_blocks // 4) // 2
    growing, aside = 0, []
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".log"):
                growing += 1
                continue
            try:
                facts = os.stat(f"{place}/{name}", follow_symlinks=False)
            except OSError:
                continue
            aside.append((facts.st_mtime_ns, facts.st_size, f"{place}/{name}"))
    used = sum(size for _, size, _ in aside)
    for _, size, path in sorted(aside):
        if used <= half:
            break
        unlink(path)
        used -= size
    return half, growing


def outdated(path: str) -> list[str]:
    """Logs of runs before the one before that of ``path``, with their older parts."""
    folder, _, own = path.rpartition("/")
    current = int(own.partition(".")[0])
    numbered = [(name.partition(".")[0], name) for name in listed(folder)]
    return [f"{folder}/{n}" for at, n in numbered if at.isdigit() and int(at) < current - 1]


def make_private(path: str) -> None:
    """Make a directory, and those above it that are absent, for us alone. Raises OSError."""
    path = os.path.realpath(path)
    if not os.path.isdir(path):
        make_private(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            return


def remove_tree(path: str) -> None:
    """Remove a directory of ours with all in it; what cannot be removed stays."""
    with suppress(OSError):
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    unlink(entry.path)
        os.rmdir(path)
