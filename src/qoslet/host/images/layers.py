"""The layers of an image, checked before ``umoci`` unpacks them.

Each layer is written without its compression into a directory of ours, its digests compared on the
way; then its entries are read, and what ``umoci`` 0.4.7 does not refuse itself is refused: a
whiteout of ``..`` (it removes the directory above the root), devices, IDs that cannot be, ``..``,
sparse files, and numbers without bound. Python's and umoci's tar readers may read a hostile header
differently: what gets past this is held by ``sandbox`` and ``rootfs``.

Source: OCI image-spec layer.md, config.md; POSIX.1-2017 pax; umoci oci/layer/tar_extract.go.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from typing import IO, NamedTuple

from qoslet.core.workload.oci.image import Descriptor
from qoslet.host.images.layout import Blob, HeaderReader

WHITEOUT, OPAQUE, AUFS = ".wh.", ".wh..wh..opq", ".wh..wh."
DEEPEST = 128
"""Directories inside each other."""
LARGEST_ID = 2**32 - 2
LONGEST = 4096
"""Bytes of a name, as in the kernel."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 256 * 1024
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_NUMBERS = ("size", "uid", "gid")


class Limits(NamedTuple):
    """What one image may take, whatever it says of itself: bytes of its layers without compression
    (headers and padding count), entries (directories on the way to one count) and seconds."""

    size: int
    entries: int
    seconds: float


class LayerChecker:
    """Writes the layers of one image to ``folder`` and checks them. Raises ValueError with what is
    wrong, OSError."""

    def __init__(self, folder: str, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._bytes = self._entries = 0
        self._directories: set[int] = set()

    def add(self, blob: Blob, layer: Descriptor, diff_id: str) -> tuple[str, int]:
        """Write one layer as a plain archive. Returns its SHA-256 digest, by which the file is
        named, and its size."""
        from hashlib import new, sha256

        path = f"{self._folder}/new"
        content = _uncompressed(blob, layer)
        before = self._bytes
        own, said = sha256(), new(diff_id.partition(":")[0])
        with open(os.open(path, _NEW, 0o600), "wb") as file:
            try:
                while data := content.read(_CHUNK):
                    self._bytes += len(data)
                    if self._bytes > self._limits.size:
                        raise ValueError(f"more than {self._limits.size} bytes unpacked")
                    own.update(data)
                    said.update(data)
                    file.write(data)
            except EOFError:
                raise ValueError("the gzip stream ends in the middle") from None
            except (zlib.error, gzip.BadGzipFile) as error:
                raise ValueError(f"{layer.digest}: {error}") from None
        blob.check()
        if said.hexdigest() != diff_id.partition(":")[2]:
            raise ValueError(f"{diff_id}: the layer's content is another")
        self._check_entries(path)
        os.rename(path, f"{self._folder}/{own.hexdigest()}")
        return f"sha256:{own.hexdigest()}", self._bytes - before

    def _check_entries(self, path: str) -> None:
        """Raise ValueError where an entry is not to be unpacked."""
        with open(path, "rb") as file:
            for entry, archive in HeaderReader(file).entries():
                if archive.pax_headers:
                    raise ValueError("a global extended header, which is not unpacked")
                self._count(entry.name)
                try:
                    _check(entry)
                except ValueError as error:
                    raise ValueError(f"{entry.name[:200]!r}: {error}") from None

    def _count(self, name: str) -> None:
        """Count an entry and the directories on the way to it. Hashes are kept, for a layer of
        some megabytes can have gigabytes of long paths."""
        self._entries += 1
        names = tuple(name.split("/")[:-1])
        if len(names) > DEEPEST:
            raise ValueError(f"{name[:200]!r}: more than {DEEPEST} directories deep")
        while names and (mark := hash(names)) not in self._directories:
            self._directories.add(mark)
            names = names[:-1]
        if self._entries + len(self._directories) > self._limits.entries:
            raise ValueError(f"more than {self._limits.entries} entries")


def _uncompressed(blob: Blob, layer: Descriptor) -> IO[bytes] | Blob:
    """A layer without its compression, which its first bytes tell."""
    first = blob.peek(len(_ZSTD))
    if first == _ZSTD:
        raise ValueError(
            f"{layer.digest}: compressed with zstd, which is not read "
            "(skopeo copy --dest-compress-format gzip converts it)"
        )
    return gzip.GzipFile(fileobj=blob) if first.startswith(_GZIP) else blob  # type: ignore[call-overload]


def _check(entry: tarfile.TarInfo) -> None:
    """Raise ValueError for an entry that is not to be unpacked."""
    for key in _NUMBERS:
        if not entry.pax_headers.get(key, "0").isdecimal():
            raise ValueError(f"{key} {entry.pax_headers[key][:40]!r} is not a number")
    for name in (entry.name, entry.linkname):
        if (length := len(os.fsencode(name))) > LONGEST:
            raise ValueError(f"a name of {length} bytes, at most {LONGEST}")
    if entry.type == tarfile.GNUTYPE_SPARSE or any(
        key.startswith("GNU.sparse.") for key in entry.pax_headers
    ):
        raise ValueError("a sparse file, which is not unpacked")
    if not (0 <= entry.uid <= LARGEST_ID and 0 <= entry.gid <= LARGEST_ID):
        raise ValueError(f"belongs to {entry.uid}:{entry.gid}, which cannot be")
    path = _names(entry.name)
    if path and path[-1].startswith(WHITEOUT):
        hidden = path[-1].removeprefix(WHITEOUT)
        if hidden in ("", ".", "..") or (
            path[-1] != OPAQUE and path[-1].startswith(AUFS) and hidden[4:] in ("", ".", "..")
        ):
            raise ValueError("hides no name")
    if entry.islnk():
        if not _names(entry.linkname):
            raise ValueError("links to the root")
    elif (entry.ischr() or entry.isblk()) and path[:1] != ["dev"]:
        raise ValueError("is a device, which is never made")


def _names(path: str) -> list[str]:
    """The names of a path, which counts from the root however it begins."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ValueError("has a '..'")
    return names
