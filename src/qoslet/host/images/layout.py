"""Places where images lie: OCI layouts as directories or in archives, and folders of these.

Whatever is read is checked against the digest by which it was asked for, and has the size that was
said. Source: OCI image-spec image-layout.md; ``skopeo copy … oci:DIR:NAME``, ``docker save``.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from typing import IO, Any, Protocol, cast

from msgspec import Struct

from qoslet.core.workload.oci.image import (
    DOCUMENT_BYTES,
    Descriptor,
    Execution,
    ImageConfiguration,
    Manifest,
    configuration_of,
    index_of,
    manifest_of,
    suited,
)
from qoslet.core.workload.oci.image_reference import Reference, goes_by, means
from qoslet.host.linux.descriptors import owned

MARK, INDEX = "oci-layout", "index.json"
MOST_PLACES = 1000
"""Layouts and archives in a folder."""
MOST_MEMBERS = 100_000
"""Entries of an archive that is a layout."""
TOLD = 6
"""Names that are told where none is the wanted one."""
EXTENSION = 1024 * 1024
"""Bytes that the headers of one entry of an archive may have together."""
BLOCK = tarfile.BLOCKSIZE
EXTENSIONS = 16
"""Extended headers of one entry; writers make four at most."""

_LONGEST = 256
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class NotFound(Exception):
    """No place has the image; the message says where was looked and what is there."""


class Blob:
    """An open file from ``offset``, ``size`` bytes long, hashed while it is read. ``check``
    raises ValueError where it is not what was asked for."""

    def __init__(self, descriptor: int, offset: int, size: int, digest: str) -> None:
        from hashlib import new

        self._descriptor = descriptor
        self._at, self._end = offset, offset + size
        self._digest = digest
        self._hash = new(digest.partition(":")[0])

    def __enter__(self) -> Blob:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def peek(self, count: int) -> bytes:
        """The next bytes, which stay to be read."""
        return os.pread(self._descriptor, min(count, self._end - self._at), self._at)

    def read(self, count: int) -> bytes:
        """At most so many bytes, none at the end."""
        data = os.pread(self._descriptor, min(count, self._end - self._at), self._at)
        self._at += len(data)
        self._hash.update(data)
        return data

    def check(self) -> None:
        """What is left is read; then it must be all of it."""
        while self.read(256 * 1024):
            pass
        if self._hash.hexdigest() != self._digest.partition(":")[2]:
            raise ValueError(f"{self._digest}: the content is another")


class Layout(Protocol):
    """One place of images; ``where`` is for people, ``name`` the last part of its path."""

    where: str
    name: str

    def document(self, name: str) -> bytes:
        """A file of the layout itself, whole. Raises OSError, ValueError."""

    def blob(self, descriptor: Descriptor) -> Blob:
        """A blob, to be read and checked. Raises OSError, ValueError."""


class DirectoryLayout:
    """A layout as a directory."""

    def __init__(self, path: str) -> None:
        self.where = path
        self.name = os.path.basename(os.path.realpath(path))

    def document(self, name: str) -> bytes:
        """A file of the layout itself, whole."""
        descriptor, size = _opened(f"{self.where}/{name}")
        with owned(descriptor):
            if size > DOCUMENT_BYTES:
                raise ValueError(f"{name} has {size} bytes, at most {DOCUMENT_BYTES} are read")
            return os.read(descriptor, DOCUMENT_BYTES)

    def blob(self, descriptor: Descriptor) -> Blob:
        """A blob by its digest."""
        path = f"{self.where}/blobs/{descriptor.digest.replace(':', '/')}"
        opened, size = _opened(path)
        if size != descriptor.size:
            os.close(opened)
            raise ValueError(f"{descriptor.digest}: {size} bytes, {descriptor.size} were said")
        return Blob(opened, 0, size, descriptor.digest)


class ArchiveLayout:
    """A layout in a tar archive that is not compressed."""

    def __init__(self, path: str) -> None:
        self.where = path
        self.name = os.path.basename(path).partition(".")[0]
        self._members: dict[str, tuple[int, int]] | None = None

    def document(self, name: str) -> bytes:
        """A file of the layout itself, whole."""
        opened, at, size = self._member(name)
        with owned(opened):
            if size > DOCUMENT_BYTES:
                raise ValueError(f"{name} has {size} bytes, at most {DOCUMENT_BYTES} are read")
            return os.pread(opened, size, at)

    def blob(self, descriptor: Descriptor) -> Blob:
        """A blob by its digest."""
        opened, at, size = self._member(f"blobs/{descriptor.digest.replace(':', '/')}")
        if size != descriptor.size:
            os.close(opened)
            raise ValueError(f"{descriptor.digest}: {size} bytes, {descriptor.size} were said")
        return Blob(opened, at, size, descriptor.digest)

    def _member(self, name: str) -> tuple[int, int, int]:
        """The open archive, where a member's content begins in it, and its size."""
        opened, _ = _opened(self.where)
        try:
            if self._members is None:
                self._members = _members(opened)
            if name not in self._members:
                raise FileNotFoundError(2, "is not in the archive", name)
        except (OSError, ValueError):
            os.close(opened)
            raise
        return opened, *self._members[name]


class HeaderReader:
    """An archive of which ``tarfile`` reads the headers; contents are passed over, and no header
    takes more memory than ``EXTENSION``."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._left, self._reads = EXTENSION, 0

    def read(self, count: int) -> bytes:
        """For ``tarfile``, which reads twice for an extended header and twice for an entry."""
        self._left -= count
        self._reads += 1
        if self._reads > 2 * EXTENSIONS + 2:
            raise ValueError(f"more than {EXTENSIONS} extended headers")
        if count < 0 or self._left < 0:
            raise ValueError(
                f"extended headers of {EXTENSION - self._left} bytes, at most {EXTENSION}"
            )
        return self._file.read(count)

    def seek(self, offset: int) -> int:
        """For ``tarfile``."""
        return self._file.seek(offset)

    def tell(self) -> int:
        """For ``tarfile``."""
        return self._file.tell()

    def entries(self) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
        """Each entry, with the archive. Raises ValueError, OSError."""
        try:
            archive: Any = tarfile.TarFile(fileobj=cast(Any, self))
            before = -1
            while (entry := archive.next()) is not None:
                if entry.size < 0 or archive.offset <= before:
                    raise ValueError(f"{entry.name[:200]!r}: size is negative")
                if archive.offset - (BLOCK - 1) > self._size:
                    raise ValueError(
                        f"{entry.name[:200]!r}: a size of {entry.size} bytes, the archive ends in the middle of an entry"
                    )
                before = archive.offset
                archive.members.clear()
                self._left, self._reads = EXTENSION, 0
                yield entry, archive
        except (tarfile.TarError, OverflowError, RecursionError, UnicodeError) as error:
            raise ValueError(f"no tar archive: {error}") from None
        self._file.seek(archive.offset)
        if self._file.read(BLOCK).strip(b"\0"):
            raise ValueError("no tar header where one has to be")


def _members(opened: int) -> dict[str, tuple[int, int]]:
    """The files of an archive that a layout has."""
    found: dict[str, tuple[int, int]] = {}
    with open(opened, "rb", closefd=False) as file:
        for number, (entry, _) in enumerate(HeaderReader(file).entries()):
            if number >= MOST_MEMBERS:
                raise ValueError(f"more than {MOST_MEMBERS} entries")
            if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                continue
            name = entry.name.removeprefix("./")
            if name == INDEX or (name.startswith("blobs/") and len(name) < _LONGEST):
                found[name] = entry.offset_data, entry.size
    return found


def _opened(path: str) -> tuple[int, int]:
    """A regular file, open, and its size. Raises OSError, ValueError."""
    descriptor = os.open(path, _OPEN)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a file")
    return descriptor, found.st_size


def layouts(path: str) -> Iterator[Layout]:
    """The layouts at a path that its owner named: it is one, or a folder of some."""
    if os.path.isfile(path):
        yield ArchiveLayout(path)
    elif os.path.exists(f"{path}/{MARK}"):
        yield DirectoryLayout(path)
    else:
        for name in sorted(os.listdir(path))[:MOST_PLACES]:
            inside = f"{path}/{name}"
            if os.path.isdir(inside) and os.path.exists(f"{inside}/{MARK}"):
                yield DirectoryLayout(inside)
            elif name.endswith(".tar") and os.path.isfile(inside):
                yield ArchiveLayout(inside)


class Image(Struct, frozen=True):
    """An image that was found, with its documents checked."""

    layout: Layout
    digest: str
    manifest: Manifest
    configuration: ImageConfiguration

    @property
    def execution(self) -> Execution:
        """What it says of its process."""
        return self.configuration.config or Execution()


def find(paths: tuple[str, ...], wanted: Reference, architecture: str) -> Image:
    """The image, in the first place that has it. Raises NotFound; ValueError and OSError for one
    that is there and wrong."""
    seen: list[str] = []
    for path in paths:
        try:
            places = list(layouts(path))
        except OSError as error:
            seen.append(f"{path}: {error.strerror}")
            continue
        for place in places:
            found = _in(place, wanted, architecture, seen)
            if found is not None:
                return found
    there = ", ".join(seen[:TOLD]) + (" and more" if len(seen) > TOLD else "") or "nothing"
    if not paths:
        raise NotFound(f"image {wanted} cannot be found: give its place with --images or --rootfs")
    raise NotFound(f"image {wanted} is not in {', '.join(paths)} (there: {there})")


def _in(place: Layout, wanted: Reference, architecture: str, seen: list[str]) -> Image | None:
    """The image in one layout. What else is there is noted in ``seen``."""
    try:
        index = index_of(place.document(INDEX), f"{place.where}/{INDEX}")
    except (OSError, ValueError) as error:
        wrong = error.strerror if isinstance(error, OSError) else str(error)
        hint = " (an older docker save? skopeo copy docker-archive:FILE oci:DIR:NAME converts it)"
        seen.append(f"{place.where}: {wrong}{hint if isinstance(error, OSError) else ''}")
        return None
    chosen = []
    for entry in index.manifests:
        names = goes_by(entry.annotations or {}, place.name)
        if means(wanted, names, entry.digest):
            chosen.append(entry)
        if len(seen) <= TOLD:
            seen += [str(name) for name in sorted(names, key=str)]
    if not chosen:
        return None
    return _image(place, tuple(chosen), architecture)


def _image(place: Layout, entries: tuple[Descriptor, ...], architecture: str) -> Image:
    """The image of one of these entries for this machine; an entry may be an index itself."""
    for _ in range(3):
        entry = suited(entries, architecture)
        if entry is None:
            there = sorted({one.platform.architecture for one in entries if one.platform})
            for_ = ", ".join(there)[:200]
            raise ValueError(f"{place.where}: for {for_}, this is {architecture}")
        what = f"{place.where}: {entry.digest}"
        if not entry.nests:
            manifest = manifest_of(_whole(place, entry), what)
            data = _whole(place, manifest.config)
            made = configuration_of(data, manifest, f"{place.where}: {manifest.config.digest}")
            if made.architecture not in ("", architecture):
                for_ = made.architecture[:80]
                raise ValueError(f"{what}: for {for_}, this is {architecture}")
            return Image(place, entry.digest, manifest, made)
        entries = index_of(_whole(place, entry), what).manifests
    raise ValueError(f"{place.where}: indexes inside indexes")


def _whole(place: Layout, descriptor: Descriptor) -> bytes:
    """A small blob, checked."""
    if descriptor.size > DOCUMENT_BYTES:
        raise ValueError(
            f"{descriptor.digest}: {descriptor.size} bytes, at most {DOCUMENT_BYTES} are read"
        )
    with place.blob(descriptor) as blob:
        data = b""
        while piece := blob.read(DOCUMENT_BYTES):
            data += piece
        blob.check()
    return data
