"""The journal of a tree as text: which groups are ours, which files were written.

One line is a checksum (CRC-32 of the rest, eight hex digits), a space and a JSON array. Lines
whose checksum is wrong, such as a last one that was torn off, are not counted.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol
from zlib import crc32

import msgspec
from msgspec import Struct

from qoslet.errors import QosletError

FORMAT = 1

CONTROL = "cgroup.subtree_control"
"""The file of a v2 group that enables controllers for those below; recorded as a value."""


class Header(Struct, frozen=True, array_like=True, tag="qoslet"):
    """The first line. Inodes mean something only on the boot and hierarchy named here. ``verb``
    tells whether the tree is to stay (``apply``) or ends with its process (``run``); ``driver``
    wrote it."""

    boot: str
    hierarchy: str
    root: str
    pid: int = 0
    format: int = FORMAT
    verb: str = "run"
    driver: str = "cgroupfs"


class CreateIntent(Struct, frozen=True, array_like=True, tag="making", gc=False):
    """A group that is not there is about to be made; one of that name that was is gone."""

    path: str


class Created(Struct, frozen=True, array_like=True, tag="made", gc=False):
    """A group was made; its inode."""

    path: str
    inode: int


class Set(Struct, frozen=True, array_like=True, tag="set", gc=False):
    """A file is about to be written; ``before`` is None where it was not read."""

    path: str
    file: str
    before: str | None
    value: str


class Removed(Struct, frozen=True, array_like=True, tag="removed", gc=False):
    """A group is about to be removed, or is gone (``done``)."""

    path: str
    done: bool = False


class Adopted(Struct, frozen=True, array_like=True, tag="met", gc=False):
    """A group of somebody else in which files are about to be written; its inode."""

    path: str
    inode: int


class ReadBack(Struct, frozen=True, array_like=True, tag="kept", gc=False):
    """What the kernel made of our last value of a file, as it was read back."""

    path: str
    file: str
    found: str


class Verified(Struct, frozen=True, array_like=True, tag="settled"):
    """Every value so far was read back: the last one of each file is what stands."""


class Released(Struct, frozen=True, array_like=True, tag="left", gc=False):
    """A file of a group of somebody else has nothing of ours any more."""

    path: str
    file: str


Entry = Header | CreateIntent | Created | Set | Removed | Adopted | ReadBack | Verified | Released


class Recorder(Protocol):
    """Takes entries before the changes they describe are made. ``wants_before``: a ``Set`` is to
    carry the value that it replaces."""

    wants_before: bool

    def record(self, entries: Sequence[Entry]) -> None:
        """Append entries. Raises QosletError or OSError: then nothing is written."""

    def record_later(self, entries: Sequence[Entry]) -> None:
        """Take entries in that could not be appended; they are, before the next ones."""


def record_done(journal: Recorder, entries: Sequence[Entry]) -> None:
    """Write down what was done already, now or before the next entries."""
    try:
        journal.record(entries)
    except (QosletError, OSError):
        journal.record_later(entries)


_decode_all = msgspec.json.Decoder(list[Entry]).decode
_encode = msgspec.json.Encoder().encode


def lines(entries: Iterable[Entry]) -> bytes:
    """The entries as lines."""
    texts = [_encode(entry) for entry in entries]
    return b"".join([b"%08x %b\n" % (crc32(text), text) for text in texts])


def beginning(header: Header) -> list[Entry]:
    """What a journal begins with: its header twice, as all else counts only with it. A reader takes
    the first that it can read."""
    return [header, header]


class ParsedJournal(Struct, frozen=True):
    """What a journal says: ``header`` is None where it has none that can be used; ``bad`` is
    the number of lines that did not count."""

    header: Header | None
    entries: tuple[Entry, ...]
    bad: int = 0


def read(data: bytes) -> ParsedJournal:
    """Every good line. A line without its newline is a torn one."""
    whole, _, tail = data.rpartition(b"\n")
    found = whole.split(b"\n") if whole else []
    good = _decoded(found)
    if good is None:
        good = [entry for line in found for entry in _decoded([line]) or ()]
    bad = len(found) - len(good) + bool(tail)
    header = good[0] if good and isinstance(good[0], Header) else None
    if header is not None and header.format != FORMAT:
        header = None
    rest = tuple([entry for entry in good if type(entry) is not Header])
    return ParsedJournal(header, rest, bad)


def _decoded(found: Sequence[bytes]) -> list[Entry] | None:
    """The entries of lines that are all good, at a third of the cost of line by line; else None."""
    texts = [line[9:] for line in found]
    sums = b"%08x " * len(texts) % tuple(map(crc32, texts))
    if b"".join([line[:9] for line in found]) != sums:
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
"""Values of a file that are remembered besides the last one: a batch writes a file at most
three times, and each is read back soon after."""


class JournalState(Struct):
    """What the entries come to. ``cgroups`` is path to how it stands and its inode (0 while
    unknown); ``files`` is (path, file) to the value before our first write and our last;
    ``earlier`` are values of ours that may stand because the last write was not seen to work;
    ``read_back`` is what the kernel made of the last one; ``adopted`` are the groups of others. ``names``
    are the files by path, so that what a group costs does not depend on the others."""

    cgroups: dict[str, tuple[CgroupState, int]] = {}
    files: dict[Key, tuple[str | None, str]] = {}
    earlier: dict[Key, tuple[str, ...]] = {}
    read_back: dict[Key, str] = {}
    adopted: dict[str, int] = {}
    names: dict[str, set[str]] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Take further entries in, in their order."""
        files, names = self.files, self.names
        for entry in entries:
            # nearly all of a journal are the first writes of files
            if type(entry) is Set and (key := (entry.path, entry.file)) not in files:
                files[key] = (entry.before, entry.value)
                known = names.get(entry.path)
                if known is None:
                    names[entry.path] = {entry.file}
                else:
                    known.add(entry.file)
                continue
            if type(entry) is Created:
                self.cgroups[entry.path] = ("made", entry.inode)
                continue
            match entry:
                case Set(path, file, before, value):
                    self._set((path, file), before, value)
                case CreateIntent(path):
                    self.cgroups[path] = ("making", 0)
                case Removed(path, done):
                    self._remove(path, done)
                case Adopted(path, inode):
                    self._adopt(path, inode)
                case ReadBack(path, file, found):
                    self.read_back[path, file] = found
                case Verified():
                    self.earlier.clear()
                case Released(path, file):
                    self._release((path, file))

    def _set(self, key: Key, before: str | None, value: str) -> None:
        """A file is written once more."""
        first = self.files.get(key)
        if first is None:
            self.names.setdefault(key[0], set()).add(key[1])
        elif first[1] != value:
            last = self.read_back.pop(key, first[1])
            others = [one for one in self.earlier.get(key, ()) if one != last]
            self.earlier[key] = (*others, last)[-EARLIER:]
        self.files[key] = (first[0] if first else before, value)

    def _adopt(self, path: str, inode: int) -> None:
        """A group of somebody else; made anew, it has nothing of ours."""
        if self.adopted.get(path, inode) != inode:
            self._forget_files(path)
        self.adopted[path] = inode

    def _remove(self, path: str, done: bool) -> None:
        """A group is to go, or is gone with the values of its files."""
        if not done:
            inode = self.cgroups.get(path, ("made", 0))[1]
            self.cgroups[path] = ("removing", inode)
            return
        self.forget(path)

    def forget(self, path: str) -> None:
        """A group is gone, and with it the values of its files."""
        self.cgroups.pop(path, None)
        self.adopted.pop(path, None)
        self._forget_files(path)

    def _release(self, key: Key) -> None:
        """A file is as it was before us: what stands there at our next write is its value of
        before."""
        path, file = key
        files = self.names.get(path, set())
        files.discard(file)
        if not files:
            self.names.pop(path, None)
        for values in (self.files, self.earlier, self.read_back):
            values.pop(key, None)

    def _forget_files(self, path: str) -> None:
        """Nothing is known of the group's files."""
        for file in self.names.pop(path, ()):
            for values in (self.files, self.earlier, self.read_back):
                values.pop((path, file), None)

    def entries(self) -> list[Entry]:
        """The shortest journal that comes to the same."""
        found: list[Entry] = [Adopted(path, inode) for path, inode in self.adopted.items()]
        for path, (standing, inode) in self.cgroups.items():
            found.append(Created(path, inode) if inode else CreateIntent(path))
            if standing == "removing":
                found.append(Removed(path))
        for key, (before, value) in self.files.items():
            found += [Set(*key, before, one) for one in (*self.earlier.get(key, ()), value)]
        return [*found, *(ReadBack(*key, value) for key, value in self.read_back.items())]

    def is_owned(self, path: str, inode: int) -> bool:
        """Whether a group that stands is the one that was made: by its inode, or where it was
        being made when the writing stopped."""
        _, known = self.cgroups.get(path, ("", -1))
        return known in (0, inode)

    def possible_values(self, key: Key) -> tuple[str, ...]:
        """The values of a file that may be there by our hand, the last one first; as written,
        except where the kernel's own form of it is known."""
        value = self.read_back.get(key) or self.files[key][1]
        return (value, *reversed(self.earlier.get(key, ())))
