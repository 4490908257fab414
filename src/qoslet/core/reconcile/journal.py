"""The journal of a tree as text: the cgroups that qoslet created and the files that it wrote.

A line is a checksum (CRC-32 of the rest, eight hex digits), a space and a JSON array. Lines with a
wrong checksum, such as a truncated last one, are skipped.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, Protocol
from zlib import crc32

import msgspec
from msgspec import Struct

from qoslet.errors import QosletError

FORMAT = 1

GUEST, AGENT = "audit", "agent"
"""The commands of journals of values in a tree of another manager, as of a kubelet: ``audit --fix``,
and the agent beside it."""
GUESTS = (GUEST, AGENT)

CONTROL = "cgroup.subtree_control"
"""The v2 file that enables controllers for child cgroups; recorded as a value."""


class Header(Struct, frozen=True, array_like=True, tag="qoslet"):
    """The first line. Inodes are valid only on this boot and hierarchy. ``verb`` is the command:
    the tree of ``apply`` stays, that of ``run`` ends with its process, those of ``GUESTS`` are another's.
    ``driver`` wrote it."""

    boot: str
    hierarchy: str
    root: str
    pid: int = 0
    format: int = FORMAT
    verb: str = "run"
    driver: str = "cgroupfs"


class CreateIntent(Struct, frozen=True, array_like=True, tag="making", gc=False):
    """A cgroup is about to be created; an earlier one of this path no longer exists."""

    path: str


class Created(Struct, frozen=True, array_like=True, tag="made", gc=False):
    """A cgroup was created, with this inode."""

    path: str
    inode: int


class Set(Struct, frozen=True, array_like=True, tag="set", gc=False):
    """A file is about to be written; ``before`` is None if it was not read."""

    path: str
    file: str
    before: str | None
    value: str


class Removed(Struct, frozen=True, array_like=True, tag="removed", gc=False):
    """A cgroup is about to be removed, or is removed (``done``)."""

    path: str
    done: bool = False


class Adopted(Struct, frozen=True, array_like=True, tag="met", gc=False):
    """Files of a foreign cgroup are about to be written; its inode."""

    path: str
    inode: int


class ReadBack(Struct, frozen=True, array_like=True, tag="kept", gc=False):
    """The last written value of a file as the kernel reads it back."""

    path: str
    file: str
    found: str


class Verified(Struct, frozen=True, array_like=True, tag="settled"):
    """Every value so far was read back: each file holds its last one."""


class Released(Struct, frozen=True, array_like=True, tag="left", gc=False):
    """A file of a foreign cgroup is restored."""

    path: str
    file: str


Entry = Header | CreateIntent | Created | Set | Removed | Adopted | ReadBack | Verified | Released


class Recorder(Protocol):
    """Records entries before their changes are made. ``wants_before``: each ``Set`` needs the value
    that it replaces."""

    wants_before: bool

    def record(self, entries: Sequence[Entry]) -> None:
        """Append entries. Raises QosletError or OSError: then nothing is written."""

    def record_later(self, entries: Sequence[Entry]) -> None:
        """Append entries before the next ones."""


def record_done(journal: Recorder, entries: Sequence[Entry]) -> None:
    """Record changes that are made already, now or before the next entries."""
    try:
        journal.record(entries)
    except (QosletError, OSError):
        journal.record_later(entries)


_decode_all = msgspec.json.Decoder(list[Entry]).decode
_encode = msgspec.json.Encoder().encode


def lines(entries: Iterable[Entry]) -> bytes:
    """The entries as lines, but for those of removals whose path is no text: others made these
    cgroups, and nothing of them is to be undone."""
    entries = list(entries)
    try:
        texts = [_encode(entry) for entry in entries]
    except UnicodeEncodeError:
        kept = (one for one in entries if not isinstance(one, Removed) or _is_text(one.path))
        texts = [_encode(entry) for entry in kept]
    return b"".join([b"%08x %b\n" % (crc32(text), text) for text in texts])


def _is_text(path: str) -> bool:
    """Whether a path can be written down."""
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


def beginning(header: Header) -> list[Entry]:
    """What a journal begins with: its header twice, as all else counts only with it. A reader takes
    the first that it can read."""
    return [header, header]


class ParsedJournal(Struct, frozen=True):
    """A parsed journal: ``header`` is None without a usable one; ``bad`` counts skipped lines."""

    header: Header | None
    entries: tuple[Entry, ...]
    bad: int = 0


def read(data: bytes) -> ParsedJournal:
    """Parses all valid lines. A line without its newline is truncated."""
    whole, _, tail = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    entries = _decoded(lines)
    if entries is None:
        entries = [entry for line in lines for entry in _decoded([line]) or ()]
    bad = len(lines) - len(entries) + bool(tail)
    header = entries[0] if entries and isinstance(entries[0], Header) else None
    if header is not None and header.format != FORMAT:
        header = None
    rest = tuple([entry for entry in entries if type(entry) is not Header])
    return ParsedJournal(header, rest, bad)


def _decoded(lines: Sequence[bytes]) -> list[Entry] | None:
    """The entries of lines that are all good, at a third of the cost of line by line; else None."""
    texts = [line[9:] for line in lines]
    sums = b"%08x " * len(texts) % tuple(map(crc32, texts))
    if b"".join([line[:9] for line in lines]) != sums:
        return None
    try:
        entries = _decode_all(b"[%b]" % b",".join(texts))
    except msgspec.DecodeError:
        return None
    return entries if len(entries) == len(texts) else None


def damaged_lines(data: bytes) -> list[int]:
    """The numbers of the lines that do not count, from 1."""
    found = data.split(b"\n")
    last = len(found) if found[-1] else 0
    return [
        number
        for number, line in enumerate(found, 1)
        if number == last or (line and line[:9] != b"%08x " % crc32(line[9:]))
    ]


CgroupState = Literal["making", "made", "removing"]


Key = tuple[str, str]
"""The path of a group and the name of a file."""


EARLIER = 3
"""Values of a file that are kept besides the last one: a batch writes a file at most three times,
and each is read back soon after."""


class JournalState(Struct):
    """The state after all entries. ``cgroups``: path to state and inode (0 while unknown).
    ``files``: (path, file) to the value before the first write, and the last written value.
    ``earlier``: written values that a file may still hold, because the last write was not verified.
    ``unconfirmed``: files without such values of which no later entry tells of something that was done: the only
    value may not have been written.
    ``read_back``: the last value as the kernel reads it back. ``adopted``: foreign cgroups with
    their inodes. ``names``: files by path, an index."""

    cgroups: dict[str, tuple[CgroupState, int]] = {}
    files: dict[Key, tuple[str | None, str]] = {}
    earlier: dict[Key, tuple[str, ...]] = {}
    unconfirmed: set[Key] = set()
    read_back: dict[Key, str] = {}
    adopted: dict[str, int] = {}
    names: dict[str, set[str]] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Apply further entries, in order."""
        files, names, unconfirmed = self.files, self.names, self.unconfirmed
        for entry in entries:
            # most entries are first writes of files
            if type(entry) is Set and (key := (entry.path, entry.file)) not in files:
                files[key] = (entry.before, entry.value)
                unconfirmed.add(key)
                known = names.get(entry.path)
                if known is None:
                    names[entry.path] = {entry.file}
                else:
                    known.add(entry.file)
                continue
            if type(entry) is Created:
                self.cgroups[entry.path] = ("made", entry.inode)
                unconfirmed.clear()
                continue
            match entry:
                case Set(path, file, _, value):
                    self._set((path, file), value)
                case CreateIntent(path):
                    self.cgroups[path] = ("making", 0)
                case Removed(path, done):
                    self._remove(path, done)
                case Adopted(path, inode):
                    self._adopt(path, inode)
                case ReadBack(path, file, actual) if (path, file) in files:
                    self.read_back[path, file] = actual
                    unconfirmed.discard((path, file))
                case Verified():
                    self.earlier.clear()
                    unconfirmed.clear()
                case Released(path, file):
                    self._release((path, file))

    def _set(self, key: Key, value: str) -> None:
        """A file is written again."""
        before, known = self.files[key]
        if known == value:
            return
        last = self.read_back.pop(key, known)
        others = [one for one in self.earlier.get(key, ()) if one != last]
        self.earlier[key] = (*others, last)[-EARLIER:]
        self.files[key] = before, value
        self.unconfirmed.discard(key)

    def _adopt(self, path: str, inode: int) -> None:
        """A foreign cgroup; a recreated one has no value of ours."""
        if self.adopted.get(path, inode) != inode:
            self._forget_files(path)
        self.adopted[path] = inode

    def _remove(self, path: str, done: bool) -> None:
        """A cgroup is about to be removed, or is removed with the values of its files."""
        if not done:
            inode = self.cgroups.get(path, ("made", 0))[1]
            self.cgroups[path] = ("removing", inode)
            return
        self.forget(path)
        self.unconfirmed.clear()

    def forget(self, path: str) -> None:
        """Forget a removed cgroup and the values of its files."""
        self.cgroups.pop(path, None)
        self.adopted.pop(path, None)
        self._forget_files(path)

    def _release(self, key: Key) -> None:
        """A file is restored: the next write records its value again."""
        path, file = key
        files = self.names.get(path, set())
        files.discard(file)
        if not files:
            self.names.pop(path, None)
        for values in (self.files, self.earlier, self.read_back):
            values.pop(key, None)
        self.unconfirmed.discard(key)

    def _forget_files(self, path: str) -> None:
        """Forget the files of a cgroup."""
        for file in self.names.pop(path, ()):
            for values in (self.files, self.earlier, self.read_back):
                values.pop((path, file), None)
            self.unconfirmed.discard((path, file))

    def entries(self) -> list[Entry]:
        """The shortest journal with the same state."""
        result: list[Entry] = [Adopted(path, inode) for path, inode in self.adopted.items()]
        doubtful = self.unconfirmed | self.earlier.keys()
        confirmed = self.files.keys() - doubtful
        result += self._sets(confirmed)
        # a cgroup that was made confirms them as well
        if confirmed and not any(inode for _, inode in self.cgroups.values()):
            result.append(Verified())
        for path, (state, inode) in self.cgroups.items():
            result.append(Created(path, inode) if inode else CreateIntent(path))
            if state == "removing":
                result.append(Removed(path))
        result += self._sets(doubtful)
        return [*result, *(ReadBack(*key, value) for key, value in self.read_back.items())]

    def _sets(self, keys: Collection[Key]) -> Iterator[Set]:
        """The writes of some files, in the order of their first ones."""
        for key, (before, value) in self.files.items():
            if key in keys:
                for one in (*self.earlier.get(key, ()), value):
                    yield Set(*key, before, one)

    def is_owned(self, path: str, inode: int) -> bool:
        """Whether an existing cgroup is the one that qoslet created: by its inode, or because its
        creation was the last entry."""
        _, known = self.cgroups.get(path, ("", -1))
        return known in (0, inode)

    def values_before(self) -> dict[Key, tuple[str | None, ...]]:
        """What files may hold instead of their last value, as its write may not have been made; None
        for what was there before a first one and was not read."""
        firsts: dict[Key, tuple[str | None, ...]] = {
            key: (self.files[key][0],) for key in self.unconfirmed
        }
        return firsts | self.earlier

    def possible_values(self, key: Key) -> tuple[str, ...]:
        """The written values that a file may hold, the last one first, as the kernel reads it back
        if that is known."""
        value = self.read_back.get(key) or self.files[key][1]
        return (value, *reversed(self.earlier.get(key, ())))
