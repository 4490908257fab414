"""Reads the logs that a runtime keeps (``logs``): as they grow, or one container's from the end."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import MsgspecError, Struct

from qoslet.core.workload.cri_log import MISSING, LogEntry, parse, path_of
from qoslet.host.containers.log_files import rotated
from qoslet.host.containers.records import read_record
from qoslet.host.linux.procfs import listed

CHUNK = 1 << 20
LINE_MAX = 1 << 20
"""Bytes of a line that are kept to be shown at once."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LogLocation(Struct, frozen=True):
    """A container's logs: the pod they belong to and their directory."""

    namespace: str
    pod: str
    uid: str
    container: str
    folder: str

    def runs(self) -> list[int]:
        """The runs that there are logs of, by number of restarts, the last one last."""
        names = listed(self.folder)
        return sorted({int(n.partition(".")[0]) for n in names if n.partition(".")[0].isdigit()})

    def age(self) -> float:
        """When something was begun here last, in seconds since 1970."""
        try:
            return os.stat(self.folder).st_mtime
        except OSError:
            return 0.0

    def path(self, run: int) -> str:
        """The newest part of a run's log."""
        return f"{self.folder}/{run}.log"


def log_locations(folder: str) -> list[LogLocation]:
    """All containers that have logs below ``folder``, sorted."""
    found = []
    for pod in listed(folder):
        namespace, _, rest = pod.partition("_")
        name, _, uid = rest.rpartition("_")
        found += [
            LogLocation(namespace, name, uid, container, f"{folder}/{pod}/{container}")
            for container in listed(f"{folder}/{pod}")
        ]
    return found


class Tail:
    """Follows one run's log from its oldest part on, over the times that it is begun anew. ``gaps`` counts
    how often a part was gone before it was read: lines may be missing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self._rest = b""
        self.gaps = 0

    def more(self) -> Iterator[LogEntry]:
        """The entries since the last call; what is no entry is left out."""
        while True:
            data = self._read()
            if not data:
                later = self._later()
                # what was written before it was put aside
                data = self._read() if later else b""
                if not data:
                    if not self._next(later):
                        return
                    continue
            *lines, rest = (self._rest + data).split(b"\n")
            # no entry is as long as that
            self._rest = rest[-CHUNK:]
            for line in lines:
                entry = parse(line)
                if entry is not None:
                    yield entry

    def _read(self) -> bytes:
        return os.read(self._file, CHUNK) if self._file >= 0 else b""

    def _later(self) -> list[tuple[str, bool]]:
        """The parts after this one, the oldest first, each with whether one before it is missing."""
        if self._file < 0:
            return [(path, False) for path in (*sorted(rotated(self._path)), self._path)]
        facts = os.fstat(self._file)
        if _is_file(self._path, facts):
            return []
        parts = sorted(rotated(self._path))
        place = next((n for n, path in enumerate(parts) if _is_file(path, facts)), -1)
        later = [*parts[place + 1 :], self._path]
        return [(path, place < 0 or n > 0) for n, path in enumerate(later)]

    def _next(self, later: Iterable[tuple[str, bool]]) -> bool:
        """Go on with the first of these parts that is there; False where none is."""
        for path, is_gap in later:
            try:
                new = os.open(path, _READ)
            except OSError:
                continue
            if stat.S_ISREG(os.fstat(new).st_mode):
                self.close()
                self._file, self._rest = new, b""
                self.gaps += is_gap
                return True
            os.close(new)
        return False

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _is_file(path: str, facts: os.stat_result) -> bool:
    """Whether that is what is there now."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), facts)
    except OSError:
        return False


class LogLine(Struct, frozen=True):
    """A line, or a piece of one that is longer than ``LINE_MAX``; ``at`` is when the line began."""

    at: bytes
    text: bytes
    begins: bool = True
    ends: bool = True


class _PendingLine(Struct):
    """A line that is not over."""

    at: bytes
    texts: deque[bytes]
    size: int = 0
    begins: bool = True

    def take(self, ends: bool) -> LogLine:
        """What there is of it, which is there no longer."""
        line = LogLine(self.at, b"".join(self.texts), self.begins, ends)
        self.texts.clear()
        self.size, self.begins = 0, False
        return line


class LogLines:
    """The lines of one run. A line longer than ``LINE_MAX`` comes in pieces; where it is to be
    ``whole``, only its end comes."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._open: dict[bytes, _PendingLine] = {}
        self.whole = False

    @property
    def gaps(self) -> int:
        """How often lines may be missing."""
        return self._tail.gaps

    def more(self) -> Iterator[LogLine]:
        """Those since the last call."""
        for entry in self._tail.more():
            line = self._open.get(entry.stream)
            if line is None:
                if not entry.partial:
                    yield LogLine(entry.at, entry.text)
                    continue
                line = self._open[entry.stream] = _PendingLine(entry.at, deque())
            line.texts.append(entry.text)
            line.size += len(entry.text)
            while self.whole and line.size > LINE_MAX:
                line.size -= len(line.texts.popleft())
            if not entry.partial:
                yield self._open.pop(entry.stream).take(ends=True)
            elif line.size > LINE_MAX:
                yield line.take(ends=False)

    def rest(self) -> list[LogLine]:
        """Those that have no end, once nothing comes any more."""
        found, self._open = [*self._open.values()], {}
        return [line.take(ends=True) for line in found]


class LogRun:
    """One run of a container: its lines, and whether it is over. ``records`` is the keeper's
    folder."""

    def __init__(self, place: LogLocation, run: int, records: str) -> None:
        self.lines = LogLines(Tail(place.path(run)))
        self._name, self._run = place.container, run
        key, directory = f"{place.namespace}/{place.pod}", place.folder.split("/")[-2]
        # the directory may have the digest of a long UID
        uids = (uid for uid in listed(records) if path_of(key, uid) == directory)
        self._folder = f"{records}/{next(uids, place.uid)}"
        self._over = False

    def over(self) -> bool:
        """Whether it has ended: nothing more will be printed."""
        try:
            life = read_record(self._folder).lives.get(self._name)
            self._over = life is None or not life.alive or life.restarts > self._run
        except FileNotFoundError:
            return True
        except (OSError, MsgspecError):
            return self._over
        return self._over


class _Following(Struct):
    """A container that is followed: its title, its run, the ``gaps`` that were told, and the line that
    is not over by stream."""

    title: str
    tail: Tail
    run: int
    gaps: int = 0
    parts: dict[bytes, bytes] = {}


class LogFollower:
    """What all containers print from now on, line by line."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._followed: dict[str, _Following] = {}

    def lines(self) -> Iterator[tuple[str, str]]:
        """Whole lines since the last call, each as (``pod/container``, line)."""
        present = {place.folder: place for place in log_locations(self._folder)}
        for folder in [*self._followed.keys() - present.keys()]:
            gone = self._followed.pop(folder)
            yield from self._of(gone)
            gone.tail.close()
        for folder, place in present.items():
            for run in place.runs():
                one = self._followed.get(folder)
                if one is None or run > one.run:
                    if one is not None:
                        yield from self._of(one)
                        one.tail.close()
                    title = f"{place.pod}/{place.container}"
                    one = self._followed[folder] = _Following(title, Tail(place.path(run)), run)
                if run == one.run:
                    yield from self._of(one)

    def _of(self, one: _Following) -> Iterator[tuple[str, str]]:
        """Whole lines of one container."""
        for entry in one.tail.more():
            text = one.parts.pop(entry.stream, b"") + entry.text
            if entry.partial:
                one.parts[entry.stream] = text[-CHUNK:]
            else:
                yield one.title, text.decode("utf-8", "replace")
        if one.tail.gaps > one.gaps:
            one.gaps = one.tail.gaps
            yield one.title, f"({MISSING})"
