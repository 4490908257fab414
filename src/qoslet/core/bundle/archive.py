"""A gzipped tar of a few plain files: packed, and read as what anyone may have made.

Only regular files are taken. Links, devices, directories above and names twice are refused, and
what unpacks to more than ``UNPACKED_MOST`` bytes is not unpacked further.

Source: POSIX.1-1988 ustar; pax and GNU headers are skipped, as no name here is long.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

from qoslet.core.api.schema import shown
from qoslet.core.bundle.parts import PARTS, Bundle
from qoslet.errors import BadInput

PACKED_MOST = 16 << 20
"""Bytes of an archive that is read; one that qoslet writes has less than 1 MB."""
UNPACKED_MOST = 64 << 20
"""Bytes that it may unpack to."""
MEMBERS_MOST = 256
"""Files that it may have."""
STREAMS_MOST = 16
"""Gzip streams, one behind the other, that it may be of."""

_BLOCK = 512
_GZIP = 16 + zlib.MAX_WBITS
_HINT = "is it the file that qoslet bundle wrote?"
_REGULAR, _DIRECTORY, _SKIPPED = b"0\0", b"5", b"xgLK"
_KINDS = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a FIFO"}


def pack(parts: Mapping[str, bytes], *, modified: int = 0) -> bytes:
    """The archive of ``parts``; ``modified`` is the time of its files in seconds since 1970."""
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
    found = []
    for name, data in parts.items():
        found.append(packer.compress(_header(name, len(data), modified)))
        found.append(packer.compress(data + bytes(-len(data) % _BLOCK)))
    found.append(packer.compress(bytes(2 * _BLOCK)))
    return b"".join([*found, packer.flush()])


def _header(name: str, size: int, modified: int) -> bytes:
    """The ustar header of a regular file that only its owner can read."""
    begin = name.encode("ascii").ljust(100, b"\0")
    numbers = b"0000600\x000000000\x000000000\x00%011o\x00%011o\x00" % (size, modified)
    rest = b"0".ljust(101, b"\0") + b"ustar\x0000"
    header = (begin + numbers + b" " * 8 + rest).ljust(_BLOCK, b"\0")
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def unpack(data: bytes, name: str) -> Bundle:
    """The parts of an archive called ``name`` in messages, which may be in one folder. Raises
    BadInput."""
    parts: dict[str, bytes] = {}
    unknown = []
    for member, content in _members(_unzipped(data, name), name):
        folder, _, part = member.rpartition("/")
        if part not in PARTS or "/" in folder:
            unknown.append(shown(member, 100))
        elif part in parts:
            raise BadInput("is in it twice", where=f"{name}: {part}", hint=_HINT)
        else:
            parts[part] = content
    if not parts:
        raise BadInput("holds no part of a bundle", where=name, hint=_HINT)
    return Bundle(name, parts, tuple(unknown))


def _unzipped(data: bytes, name: str) -> bytes:
    """The tar in it, within ``UNPACKED_MOST``."""
    found: list[bytes] = []
    size = 0
    while data.strip(b"\0"):
        if len(found) == STREAMS_MOST:
            raise BadInput("is damaged", where=name, hint=_HINT)
        unpacker = zlib.decompressobj(_GZIP)
        try:
            found.append(unpacker.decompress(data, UNPACKED_MOST - size + 1))
        except zlib.error:
            message = "is damaged" if found or data[:2] == b"\x1f\x8b" else "is not gzip"
            raise BadInput(message, where=name, hint=_HINT) from None
        size += len(found[-1])
        if size > UNPACKED_MOST:
            message = f"unpacks to more than {UNPACKED_MOST >> 20} MiB"
            raise BadInput(message, where=name, hint=_HINT)
        if not unpacker.eof:
            raise BadInput("is cut off", where=name, hint="copy it again")
        data = unpacker.unused_data
    if not found:
        raise BadInput("is empty", where=name, hint=_HINT)
    return b"".join(found)


def _members(data: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """The regular files of a tar, with their names."""
    at = count = 0
    while True:
        header = data[at : at + _BLOCK]
        if not header.strip(b"\0"):
            return
        if len(header) < _BLOCK:
            raise BadInput("is cut off", where=name, hint="copy it again")
        count += 1
        if count > MEMBERS_MOST:
            raise BadInput(f"has more than {MEMBERS_MOST} files", where=name, hint=_HINT)
        size = _checked_size(header, name)
        begin = at + _BLOCK
        at = begin + size + -size % _BLOCK
        if begin + size > len(data):
            raise BadInput("is cut off", where=name, hint="copy it again")
        kind = header[156:157]
        if kind in _SKIPPED:
            continue
        member = _plain_name(header, name)
        if kind in _REGULAR:
            yield member, data[begin : begin + size]
        elif kind != _DIRECTORY:
            message = f"is {_KINDS.get(kind, 'not a regular file')}"
            raise BadInput(message, where=f"{name}: {shown(member, 100)}", hint=_HINT)


def _checked_size(header: bytes, name: str) -> int:
    """The size of a member whose header's checksum is right."""
    wanted = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    size = _octal(header[124:136])
    if _octal(header[148:156]) != wanted or size is None:
        raise BadInput("is not a tar", where=name, hint=_HINT)
    return size


def _octal(field: bytes) -> int | None:
    """A number of a header; None for what is none."""
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else None


def _plain_name(header: bytes, name: str) -> str:
    """The name of a member without a leading ``./``, below the archive's own folder."""
    text = header[:100].partition(b"\0")[0].decode("utf-8", "replace")
    if header[257:262] == b"ustar" and header[345]:
        text = f"{header[345:500].partition(bytes(1))[0].decode('utf-8', 'replace')}/{text}"
    steps = [step for step in text.split("/") if step not in ("", ".")]
    if text.startswith("/") or ".." in steps:
        where = f"{name}: {shown(text, 100)}"
        raise BadInput("is a path outside of the archive", where=where, hint=_HINT)
    return "/".join(steps)
