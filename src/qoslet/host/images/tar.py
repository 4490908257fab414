"""Tar archives as a stream of entries, read strictly: what is not understood is a fault.

Python's own reader takes whatever a header says into memory and follows extensions that an image
has no use for. Here extensions are bounded by entry and in all, sparse files are refused, and names are bytes of a
path and nothing more: where they lead is for who makes them. Source: POSIX.1-2017 pax; GNU tar
manual, Basic Tar Format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from qoslet.host.images.budget import Budget

BLOCK = 512
EXTENSION = 1024 * 1024
"""Bytes that the extended headers of one entry may have together."""
EXTENSIONS = 16
"""Extended headers of one entry; writers make four at most."""
LONGEST = 4096
"""Bytes of a name, as in the kernel."""
LARGEST = 2**62
CHUNK = 256 * 1024

_XATTR, _SPARSE = "SCHILY.xattr.", "GNU.sparse."
_TAKEN = frozenset({"path", "linkpath", "size", "uid", "gid", "mtime"})
_RECORDS = 32
"""Bytes of an extended header for which there is a step."""
_ZEROS = bytes(BLOCK)


class Entry(NamedTuple):
    """One entry. ``kind`` is the letter of the type: ``0`` file, ``1`` link to one before, ``2``
    symbolic link, ``3`` and ``4`` devices, ``5`` directory, ``6`` FIFO. ``size`` is in bytes."""

    name: str
    kind: str
    link: str
    mode: int
    uid: int
    gid: int
    mtime: int
    size: int
    xattrs: tuple[tuple[str, bytes], ...]


class TarReader:
    """Reads entries from ``read(count)``, which gives at most as many bytes, none at the end. All
    but the contents is spent from ``budget``. Raises ValueError with what is wrong, and what
    ``read`` raises."""

    def __init__(self, read: Callable[[int], bytes], budget: Budget) -> None:
        self._read = read
        self._budget = budget
        self._extensions = self._extension = 0
        self._left = 0
        self._padding = 0

    def entries(self) -> Iterator[Entry]:
        """Each entry; what is not taken of its ``data`` is passed over."""
        extra: dict[str, bytes] = {}
        while True:
            self._pass_over()
            header = self._exactly(BLOCK, end=True)
            if not header or header == _ZEROS:
                return
            _check_sum(header)
            kind = chr(header[156]) if header[156] else "0"
            size = _number(header[124:136], "size")
            if kind in "xgLK":
                self._extended(kind, size, extra)
                continue
            entry = _entry(header, "0" if kind == "7" else kind, size, extra)
            extra = {}
            self._extensions = self._extension = 0
            self._left = entry.size if entry.kind == "0" else 0
            self._padding = -self._left % BLOCK
            self._budget.spend(BLOCK + self._padding, entries=1)
            yield entry

    def data(self) -> Iterator[bytes]:
        """The content of the entry that was given last."""
        while self._left:
            piece = self._exactly(min(CHUNK, self._left))
            self._left -= len(piece)
            yield piece

    def skipped(self) -> int:
        """Leave out the content of the entry that was given last, which the caller passes over:
        so many bytes, its padding among them."""
        count, self._left, self._padding = self._left + self._padding, 0, 0
        return count

    def _pass_over(self) -> None:
        for _ in self.data():
            pass
        if self._padding:
            self._exactly(self._padding)
            self._padding = 0

    def _extended(self, kind: str, size: int, extra: dict[str, bytes]) -> None:
        """Take an extended header into ``extra``."""
        self._extensions += 1
        self._extension += size
        if self._extension > EXTENSION:
            raise ValueError(f"extended headers of {self._extension} bytes, at most {EXTENSION}")
        if self._extensions > EXTENSIONS:
            raise ValueError(f"more than {EXTENSIONS} extended headers for one entry")
        self._budget.spend(BLOCK + size + -size % BLOCK, steps=1 + size // _RECORDS)
        text = self._exactly(size)
        self._exactly(-size % BLOCK)
        if kind == "x":
            extra.update(_records(text))
        elif kind in "LK":
            extra["path" if kind == "L" else "linkpath"] = text.rstrip(b"\0")

    def _exactly(self, count: int, *, end: bool = False) -> bytes:
        """That many bytes; none at the end where there may be one."""
        data = self._read(count)
        while 0 < len(data) < count:
            more = self._read(count - len(data))
            if not more:
                break
            data += more
        if len(data) != count and (data or not end):
            raise ValueError("the archive ends in the middle of an entry")
        return data


def _check_sum(header: bytes) -> None:
    """Raise ValueError for what is no header."""
    total = sum(header[:148]) + 8 * 32 + sum(header[156:])
    if _number(header[148:156], "checksum") != total:
        raise ValueError("no tar header where one has to be")


def _number(field: bytes, what: str) -> int:
    """An octal number, or one in base 256."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        if field[0] & 0x40:
            raise ValueError(f"{what} is negative")
        return value
    text = field.strip(b" \0")
    if text.strip(b"01234567"):
        raise ValueError(f"{what} {text!r} is no number")
    return int(text, 8) if text else 0


def _records(text: bytes) -> dict[str, bytes]:
    """The records of a pax header that matter here."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(text):
        space = text.find(b" ", at, at + 8)
        length = text[at:space]
        if space < 0 or not length.isdigit() or int(length) <= space - at + 1:
            raise ValueError("an extended header that cannot be read")
        end = at + int(length)
        key, equals, value = text[space + 1 : end].partition(b"=")
        if end > len(text) or not equals or not value.endswith(b"\n"):
            raise ValueError("an extended header that cannot be read")
        name = _text(key)
        if name in _TAKEN or name.startswith((_XATTR, _SPARSE)):
            found[name] = value[:-1]
        at = end
    return found


def _entry(header: bytes, kind: str, size: int, extra: dict[str, bytes]) -> Entry:
    """The entry of a header and what was said before it."""
    if kind == "S" or any(key.startswith(_SPARSE) for key in extra):
        raise ValueError("a sparse file, which is not unpacked")
    name = header[:100].split(b"\0", 1)[0]
    if header[257:262] == b"ustar" and header[263:265] == b"00":
        prefix = header[345:500].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    path = _text(_name(extra.get("path", name)))
    whole = _whole(extra, "size", b"%o" % size)
    if whole > LARGEST:
        raise ValueError(f"a size of {whole} bytes")
    if kind == "0" and path.endswith("/") and not size:
        kind = "5"
    return Entry(
        path,
        kind,
        _text(_name(extra.get("linkpath", header[157:257].split(b"\0", 1)[0]))),
        _number(header[100:108], "mode"),
        _whole(extra, "uid", header[108:116]),
        _whole(extra, "gid", header[116:124]),
        _whole(extra, "mtime", header[136:148]),
        whole,
        tuple(
            (key.removeprefix(_XATTR), value)
            for key, value in extra.items()
            if key.startswith(_XATTR)
        ),
    )


def _whole(extra: dict[str, bytes], key: str, field: bytes) -> int:
    """A number of the extended header, without its fraction, or of the plain one."""
    given = extra.get(key)
    if given is None:
        try:
            return _number(field, key)
        except ValueError:
            if key == "mtime":
                return 0
            raise
    text = given.partition(b".")[0]
    if key == "mtime" and text.startswith(b"-"):
        return 0
    if not text.isdigit() or len(text) > 20:
        raise ValueError(f"{key} {given[:40]!r} is no number")
    return int(text)


def _name(name: bytes) -> bytes:
    """A name that the kernel could have. Raises ValueError."""
    if len(name) > LONGEST:
        raise ValueError(f"a name of {len(name)} bytes, at most {LONGEST}")
    return name


def _text(name: bytes) -> str:
    """A name as Python's file functions want it."""
    return name.decode("utf-8", "surrogateescape")
