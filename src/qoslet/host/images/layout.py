"""Places where images lie: OCI layouts as directories or in archives, and folders of these.

Whatever is read is checked against the digest by which it was asked for, and has the size that was
said. Source: OCI image-spec image-layout.md; ``skopeo copy … oci:DIR:NAME``, ``docker save``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from qoslet.core.workload.image import (
    DOCUMENT_BYTES,
    Configuration,
    Descriptor,
    Execution,
    Manifest,
    configuration_of,
    index_of,
    manifest_of,
    suited,
)
from qoslet.core.workload.image_reference import Reference, goes_by, means
from qoslet.host.images.budget import Budget
from qoslet.host.images.tar import TarReader

MARK, INDEX = "oci-layout", "index.json"
MOST_PLACES = 1000
"""Layouts and archives in a folder."""
MOST_MEMBERS = 100_000
"""Entries of an archive that is a layout."""
TOLD = 6
"""Names that are told where none is the wanted one."""

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
        try:
            if size > DOCUMENT_BYTES:
                raise ValueError(f"{name} has {size} bytes, at most {DOCUMENT_BYTES} are read")
            return os.read(descriptor, DOCUMENT_BYTES)
        finally:
            os.close(descriptor)

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
        try:
            if size > DOCUMENT_BYTES:
                raise ValueError(f"{name} has {size} bytes, at most {DOCUMENT_BYTES} are read")
            return os.pread(opened, size, at)
        finally:
            os.close(opened)

    def blob(self, descriptor: Descriptor) -> Blob:
        """A blob by its digest."""
        opened, at, size = self._member(f"blobs/{descriptor.digest.replace(':', '/')}")
        if size != descriptor.size:
            os.close(opened)
            raise ValueError(f"{descriptor.digest}: {size} bytes, {descriptor.size} were said")
        return Blob(opened, at, size, descriptor.digest)

    def _member(self, name: str) -> tuple[int, int, int]:
        """The open archive, where a member's content begins in it, and its size."""
        opened, size = _opened(self.where)
        try:
            if self._members is None:
                self._members = _members(opened, size)
            if name not in self._members:
                raise FileNotFoundError(2, "is not in the archive", name)
        except (OSError, ValueError):
            os.close(opened)
            raise
        return opened, *self._members[name]


def _members(opened: int, size: int) -> dict[str, tuple[int, int]]:
    """The files of an archive of so many bytes that a layout has; their contents are passed over
    without being read."""
    at = 0

    def read(count: int) -> bytes:
        nonlocal at
        data = os.pread(opened, count, at)
        at += len(data)
        return data

    found: dict[str, tuple[int, int]] = {}
    reader = TarReader(read, Budget(size, MOST_MEMBERS))
    for entry in reader.entries():
        if entry.kind == "0":
            name = entry.name.removeprefix("./")
            if name == INDEX or (name.startswith("blobs/") and len(name) < _LONGEST):
                found[name] = (at, entry.size)
            at += reader.skipped()
            if at > size:
                raise ValueError("the archive ends in the middle of an entry")
    return found


def _opened(path: str) -> tuple[int, int]:
    """A regular file, open, and its size. Raises OSError, ValueError."""
    descriptor = os.open(path, _OPEN)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is no file")
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
    configuration: Configuration

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
    where = ", ".join(paths) or "no --images given"
    raise NotFound(f"image {wanted} is not in {where} (there: {there})")


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
