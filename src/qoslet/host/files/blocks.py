"""Files of a cluster as blocks of text, compressed or not, of which one is in memory at a time."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

from qoslet.core.api.schema import shown, shown_path
from qoslet.errors import BadInput, CannotDo
from qoslet.host.files.manifests import check_file, open_file, unreadable

BLOCK = 1 << 20
_PIECE = 1 << 12
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_NAMES = (".json", ".yaml", ".yml", ".jsonl")
_PACKED = ("", ".gz", ".zst")
_BUNDLES = (".tar.gz", ".tgz")


def is_bundle(path: str) -> bool:
    """Whether a name is that of a bundle."""
    return path.endswith(_BUNDLES)


def files_of(paths: Sequence[str], recursive: bool = False) -> list[str]:
    """The files that ``paths`` name or hold, in the order of their names. Raises BadInput for a
    directory without any."""
    found: list[str] = []
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            found.append(path)
            continue
        below = sorted(_below(path, recursive))
        if not below:
            message = "has no *.json, *.yaml, *.yml (also .gz, .zst) and no bundle"
            raise BadInput(
                message, where=shown_path(path), hint="-R also reads the directories below"
            )
        found += below
    return found


def _below(path: str, recursive: bool) -> Iterator[str]:
    try:
        entries = list(os.scandir(path))
    except OSError as error:
        raise unreadable(path, error) from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            if recursive:
                yield from _below(entry.path, True)
        elif entry.name.endswith((*_BUNDLES, *(a + b for a in _NAMES for b in _PACKED))):
            yield entry.path


class FileStream:
    """The text of a file, or of standard input (``-``). ``size`` is that of the file, None for a
    stream; ``position`` how much of it was read."""

    def __init__(self, path: str) -> None:
        self.name = "stdin" if path == "-" else shown_path(path)
        self.position = 0
        self._file = _opened(path)
        mode = os.fstat(self._file.fileno())
        self.size = mode.st_size if path != "-" and mode.st_size else None

    def __iter__(self) -> Iterator[bytes]:
        """The blocks. Raises BadInput where the file ends too early or is damaged, after the blocks
        before that; CannotDo where a module lacks that unpacks it."""
        try:
            first = self._read()
            if first[:2] == _GZIP:
                yield from self._gunzip(first)
            elif first[:4] == _ZSTD:
                yield from self._unzstd(first)
            else:
                while first:
                    yield first
                    first = self._read()
        except OSError as error:
            raise unreadable(self.name, error) from None
        finally:
            self._file.close()

    def _read(self) -> bytes:
        data = self._file.read(BLOCK // 4)
        self.position += len(data)
        return data

    def _gunzip(self, data: bytes) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            while True:
                while data:
                    block = unpacker.decompress(data, BLOCK)
                    if block:
                        yield block
                    data = unpacker.unconsumed_tail
                    if unpacker.eof:
                        data = unpacker.unused_data.lstrip(b"\0")
                        unpacker = zlib.decompressobj(wbits=31)
                        fresh = not data
                    else:
                        fresh = False
                data = self._read()
                if not data:
                    break
        except zlib.error as error:
            raise _damaged(self.name, str(error).rpartition(": ")[2]) from None
        if not fresh:
            raise _damaged(self.name, "ends in the middle")

    def _unzstd(self, data: bytes) -> Iterator[bytes]:
        zstandard = _zstandard(self.name)
        unpacker, ended = zstandard.ZstdDecompressor().decompressobj(), True
        try:
            while data:
                # what a piece held before its fault is lost
                piece, data = data[:_PIECE], data[_PIECE:]
                block = unpacker.decompress(piece)
                for at in range(0, len(block), BLOCK):
                    yield block[at : at + BLOCK]
                ended = unpacker.eof
                if ended:
                    data = unpacker.unused_data + data
                    unpacker = zstandard.ZstdDecompressor().decompressobj()
                data = data or self._read()
        except zstandard.ZstdError as error:
            raise _damaged(self.name, str(error).rpartition(": ")[2]) from None
        if not ended:
            raise _damaged(self.name, "ends in the middle")


def _opened(path: str) -> IO[bytes]:
    """Raises BadInput."""
    if path == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise BadInput("standard input is closed", where="stdin", hint="name a file")
        return os.fdopen(os.dup(stream.fileno()), "rb")
    try:
        descriptor = open_file(path, False)
        try:
            if not path.startswith(("/dev/", "/proc/self/fd/")):
                check_file(path, descriptor)
            os.set_blocking(descriptor, True)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def _zstandard(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module("zstandard")
    except ImportError:
        hint = "pip install 'qoslet[fleet]', or: zstd -dc FILE | qoslet fleet -"
        raise CannotDo(
            "is packed with zstd, which needs zstandard", where=name, hint=hint
        ) from None


def _damaged(name: str, why: str) -> BadInput:
    hint = "what came before is read; fetch it again"
    return BadInput(f"cannot be unpacked: {shown(why)}", where=name, hint=hint)
