"""What happens in directories, told by inotify.

Source: inotify(7). Only what makes a file complete, or takes it away, is told: a file that is
being written says nothing until it is closed.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, Protocol

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x02, 0x04, 0x08, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR, _EXCL_UNLINK = 0x01000000, 0x04000000

_MASK = (
    *(_ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE),
    *(_DELETE_SELF, _MOVE_SELF, _ONLYDIR, _EXCL_UNLINK),
)
_ENDED = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED
_TAKEN = _MOVED_FROM | _DELETE

_MONOTONIC = 1

_HEAD = struct.Struct("iIII")
_READ = 64 * 1024
_READS_MAX = 64
"""Reads of one look: whoever writes without end must not keep us here."""

Kind = Literal["made", "there", "taken", "ended", "lost"]


class Event(NamedTuple):
    """``made``: the entry came, and may be written still. ``there``: it was closed after writing,
    came by a rename, or has other rights; the directory has, where ``name`` is empty. ``taken``:
    it went. ``ended``: the directory itself went, and is watched no longer. ``lost``: events were
    dropped, anything may have happened anywhere."""

    kind: Kind
    directory: str
    name: str


class DirectoryWatch(Protocol):
    """Tells what happens in directories."""

    def add(self, directory: str) -> None:
        """Watch a directory, by the path it is told with; again is no fault. Raises OSError."""

    def drop(self, directory: str) -> None:
        """Watch it no longer."""

    def events(self) -> Sequence[Event]:
        """What happened since the last call, in order."""

    def descriptors(self) -> list[int]:
        """Readable when there are events."""

    def close(self) -> None:
        """Watch nothing any more."""


class Alarm:
    """A descriptor that becomes readable after a time, or again and again. Raises OSError."""

    def __init__(self) -> None:
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self.fd = _checked(_libc().timerfd_create(_MONOTONIC, flags), "timer")

    def ring(self, seconds: float, *, again: bool = False) -> None:
        """Become readable in ``seconds``."""
        time = divmod(max(int(seconds * 1e9), 1), 10**9)
        spec = struct.pack("qqqq", *(time if again else (0, 0)), *time)
        _checked(_libc().timerfd_settime(self.fd, 0, spec, None), "timer")

    def rang(self) -> bool:
        """Whether it has become readable; it no longer is."""
        try:
            return bool(os.read(self.fd, 8))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Give the descriptor back."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class PollingWatch:
    """A ``DirectoryWatch`` that knows nothing, and says so every ``seconds``: where inotify is not to be
    had."""

    def __init__(self, seconds: float) -> None:
        self._alarm = Alarm()
        self._alarm.ring(seconds, again=True)

    def add(self, directory: str) -> None:
        """Nothing: everything is looked at anyway."""

    def drop(self, directory: str) -> None:
        """Nothing."""

    def events(self) -> list[Event]:
        """That anything may have happened, once for each tick."""
        return [Event("lost", "", "")] if self._alarm.rang() else []

    def descriptors(self) -> list[int]:
        """The timer."""
        return [self._alarm.fd]

    def close(self) -> None:
        """Give the timer back."""
        self._alarm.close()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


class _Instance:
    """An inotify instance. Raises OSError where it cannot be had (EMFILE: this user's
    ``fs.inotify.max_user_instances`` are in use; watching, ENOSPC: ``max_user_watches``)."""

    def __init__(self) -> None:
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self._fd = _checked(_libc().inotify_init1(flags), "inotify")

    def _watch(self, path: str, mask: int) -> int:
        wanted = ctypes.c_uint32(mask)
        return _checked(_libc().inotify_add_watch(self._fd, os.fsencode(path), wanted), path)

    def _leave(self, number: int) -> None:
        # an error means that the kernel has dropped it already
        _libc().inotify_rm_watch(self._fd, number)

    def _read_events(self) -> Iterator[tuple[int, int, str]]:
        """What waits to be read: a watch's number, the mask of what happened, and a name."""
        for _ in range(_READS_MAX):
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                number, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                yield number, mask, os.fsdecode(data[at - length : at].rstrip(b"\0"))

    def descriptors(self) -> list[int]:
        """The inotify instance."""
        return [self._fd]

    def close(self) -> None:
        """Give the instance back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Inotify(_Instance):
    """A ``DirectoryWatch`` by the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: dict[str, int] = {}
        self._paths: dict[int, list[str]] = {}

    def add(self, directory: str) -> None:
        """Watch a directory, following links."""
        number = self._watch(directory, sum(_MASK))
        if self._watched.get(directory) != number:
            self.drop(directory)
            self._watched[directory] = number
            # two paths may lead to one directory, which has one number
            self._paths.setdefault(number, []).append(directory)

    def drop(self, directory: str) -> None:
        """Watch it no longer."""
        number = self._watched.pop(directory, None)
        if number is None:
            return
        left = self._paths[number]
        left.remove(directory)
        if not left:
            del self._paths[number]
            self._leave(number)

    def events(self) -> list[Event]:
        """What happened since the last call, in order."""
        found: list[Event] = []
        for number, mask, name in self._read_events():
            if mask & _OVERFLOW:
                found.append(Event("lost", "", ""))
                continue
            for directory in tuple(self._paths.get(number, ())):
                if mask & _ENDED:
                    self.drop(directory)
                    found.append(Event("ended", directory, ""))
                else:
                    kind: Kind = "taken" if mask & _TAKEN else "made" if mask & _CREATE else "there"
                    found.append(Event(kind, directory, name))
        return found


class Changes(_Instance):
    """Files whose content changes, each by a name."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def add(self, name: str, path: str) -> None:
        """Watch a file, following links; one name a file."""
        number = self._watch(path, _MODIFY)
        if self._numbers.get(name) != number:
            self.drop(name)
            self._numbers[name], self._names[number] = number, name

    def drop(self, name: str) -> None:
        """Watch it no longer."""
        number = self._numbers.pop(name, None)
        if number is not None and self._names.get(number) == name:
            del self._names[number]
            self._leave(number)

    def changed(self) -> frozenset[str]:
        """Names of the files that changed since the last call; every one, where that was lost."""
        found: set[str] = set()
        for number, mask, _ in self._read_events():
            if mask & _OVERFLOW:
                found |= self._numbers.keys()
            elif number in self._names and not mask & _IGNORED:
                found.add(self._names[number])
        return frozenset(found)
