"""The journal of a tree as text: which groups are ours, which files were written.

One line is a checksum (CRC-32 of the rest, eight hex digits), a space and a JSON array. Lines
whose checksum is wrong, such as a last one that was torn off, are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal
from zlib import crc32

import msgspec
from msgspec import Struct

FORMAT = 1


class Header(Struct, frozen=True, array_like=True, tag="qoslet"):
    """The first line. Inodes mean something only on the boot and hierarchy named here."""

    boot: str
    hierarchy: str
    root: str
    pid: int = 0
    format: int = FORMAT


class Making(Struct, frozen=True, array_like=True, tag="making", gc=False):
    """A group is about to be made."""

    path: str


class Made(Struct, frozen=True, array_like=True, tag="made", gc=False):
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


Entry = Header | Making | Made | Set | Removed

_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)
_encode = msgspec.json.Encoder().encode


def lines(entries: Iterable[Entry]) -> bytes:
    """The entries as lines."""
    texts = [_encode(entry) for entry in entries]
    return b"".join([b"%08x %b\n" % (crc32(text), text) for text in texts])


class Read(Struct, frozen=True):
    """What a journal says: ``header`` is None where it has none that can be used; ``bad`` is
    the number of lines that did not count."""

    header: Header | None
    entries: tuple[Entry, ...]
    bad: int = 0


def _entry(line: bytes) -> Entry | None:
    """The entry of a line, None if it is damaged."""
    checksum, space, text = line.partition(b" ")
    if not space or checksum != b"%08x" % crc32(text):
        return None
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None


def read(data: bytes) -> Read:
    """Every good line. A line without its newline is a torn one."""
    whole, _, tail = data.rpartition(b"\n")
    found = [_entry(line) for line in whole.split(b"\n")] if whole else []
    good = [entry for entry in found if entry is not None]
    bad = len(found) - len(good) + bool(tail)
    header = good[0] if good and isinstance(good[0], Header) else None
    if header is not None and header.format != FORMAT:
        header = None
    rest = tuple(entry for entry in good if not isinstance(entry, Header))
    return Read(header, rest, bad)


Standing = Literal["making", "made", "removing"]


class Ledger(Struct):
    """What the entries come to. ``groups`` is path to how it stands and its inode (0 while
    unknown); ``files`` is (path, file) to the value before our first write and our last."""

    groups: dict[str, tuple[Standing, int]] = {}
    files: dict[tuple[str, str], tuple[str | None, str]] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Take further entries in, in their order."""
        for entry in entries:
            match entry:
                case Making(path):
                    self.groups.setdefault(path, ("making", 0))
                case Made(path, inode):
                    self.groups[path] = ("made", inode)
                case Set(path, file, before, value):
                    first = self.files.get((path, file))
                    self.files[path, file] = (first[0] if first else before, value)
                case Removed(path, done):
                    self._remove(path, done)

    def _remove(self, path: str, done: bool) -> None:
        """A group is to go, or is gone with the values of its files."""
        if not done:
            inode = self.groups.get(path, ("made", 0))[1]
            self.groups[path] = ("removing", inode)
            return
        self.groups.pop(path, None)
        for key in [key for key in self.files if key[0] == path]:
            del self.files[key]

    def entries(self) -> list[Entry]:
        """The shortest journal that comes to the same."""
        found: list[Entry] = []
        for path, (standing, inode) in self.groups.items():
            found.append(Made(path, inode) if inode else Making(path))
            if standing == "removing":
                found.append(Removed(path))
        found += [Set(path, file, *pair) for (path, file), pair in self.files.items()]
        return found

    def ours(self, path: str, inode: int) -> bool:
        """Whether a group that stands is the one that was made: by its inode, or where it was
        being made when the writing stopped."""
        _, known = self.groups.get(path, ("", -1))
        return known in (0, inode)
