"""Images unpacked: one directory for each chain of layers, made once, whole or not at all.

``FOLDER/images/<chain>/rootfs`` is never written again: containers get their own layer on top. The
name is the digest of what was unpacked (OCI image-spec config.md, ChainID), so equal layers are
unpacked once, whatever image they belong to.
"""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qoslet.core.workload.image import Descriptor
from qoslet.host.images.budget import Budget
from qoslet.host.images.layout import Blob, Image
from qoslet.host.images.unpack import Unpacker, remove

MOST_BYTES = 32 * 1024**3
MOST_ENTRIES = 2_000_000
"""What one image may take."""

_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 256 * 1024
_SLICE = 16 * 1024
"""What zlib gets at a time: what follows a stream is copied at each one's end."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def chain_of(diff_ids: tuple[str, ...]) -> str:
    """The ChainID of all layers, as a file name."""
    from hashlib import sha256

    chain = ""
    for one in diff_ids:
        chain = one if not chain else f"sha256:{sha256(f'{chain} {one}'.encode()).hexdigest()}"
    return (chain or f"sha256:{sha256().hexdigest()}").replace(":", "-")


class Store:
    """The unpacked images below ``folder``, which is made for us alone."""

    def __init__(self, folder: str, most_bytes: int = MOST_BYTES, most: int = MOST_ENTRIES) -> None:
        self._folder = f"{folder}/images"
        self._most = most_bytes, most

    def unpacked(self, image: Image) -> str:
        """The root file system of an image, unpacked if it is not yet. Waits for another that
        unpacks it. Raises OSError, ValueError; nothing of it stands then."""
        chain = chain_of(image.configuration.rootfs.diff_ids)
        whole = f"{self._folder}/{chain}"
        if not os.path.isdir(whole):
            private(self._folder)
            with _locked(f"{self._folder}/{chain}.lock"):
                if not os.path.isdir(whole):
                    self._unpack(image, chain)
        return f"{whole}/rootfs"

    def _unpack(self, image: Image, chain: str) -> None:
        """Unpack beside, and put it in its place when it is whole."""
        name = f"{chain}.new"
        folder = os.open(self._folder, _DIR)
        try:
            remove(folder, name)
            os.mkdir(name, 0o700, dir_fd=folder)
            os.mkdir(f"{name}/rootfs", 0o755, dir_fd=folder)
            root = os.open(f"{name}/rootfs", _DIR, dir_fd=folder)
            try:
                os.fchmod(root, 0o755)
                self._layers(image, root)
            except BaseException:
                remove(folder, name)
                raise
            finally:
                os.close(root)
            os.rename(name, chain, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)

    def _layers(self, image: Image, root: int) -> None:
        """All layers, the lowest first."""
        budget = Budget(*self._most)
        made = Unpacker(root, budget)
        if (size := sum(layer.size for layer in image.manifest.layers)) > self._most[0]:
            raise ValueError(f"layers of {size} bytes, at most {self._most[0]}")
        ids = image.configuration.rootfs.diff_ids
        for layer, diff_id in zip(image.manifest.layers, ids, strict=True):
            with image.layout.blob(layer) as blob:
                try:
                    content = _Content(blob, layer, diff_id, budget)
                    made.layer(content.read)
                    blob.check()
                    content.check()
                except zlib.error as error:
                    raise ValueError(f"{layer.digest}: {error}") from None


class _Content:
    """A layer as it was before it was compressed, hashed while it is read."""

    def __init__(self, blob: Blob, layer: Descriptor, diff_id: str, budget: Budget) -> None:
        from hashlib import new

        self._blob = blob
        self._budget = budget
        self._diff_id = diff_id
        self._hash = new(diff_id.partition(":")[0])
        self._first = blob.read(_CHUNK)
        if self._first.startswith(_ZSTD):
            raise ValueError(
                f"{layer.digest}: compressed with zstd, which is not read "
                "(skopeo copy --dest-compress-format gzip converts it)"
            )
        plain = self._inflated() if self._first.startswith(_GZIP) else self._pieces()
        self._piece, self._at = b"", 0
        self._next: Callable[[], bytes] = lambda: next(plain, b"")

    def read(self, count: int) -> bytes:
        """At most so many bytes, none at the end."""
        if self._at == len(self._piece):
            self._piece, self._at = self._next(), 0
            self._hash.update(self._piece)
        data = self._piece[self._at : self._at + count]
        self._at += len(data)
        return data

    def check(self) -> None:
        """Raise ValueError where it is not the content that the configuration names."""
        if self._hash.hexdigest() != self._diff_id.partition(":")[2]:
            raise ValueError(f"{self._diff_id}: the layer's content is another")

    def _pieces(self) -> Iterator[bytes]:
        """The blob as it is."""
        piece = self._first
        while piece:
            yield piece
            piece = self._blob.read(_CHUNK)

    def _inflated(self) -> Iterator[bytes]:
        """The blob without gzip, which may be several streams; never more than a bounded piece
        of it at a time."""
        machine, begun = zlib.decompressobj(31), False
        for rest in self._slices():
            while rest := rest if begun else rest.lstrip(b"\0"):
                data = machine.decompress(rest, _CHUNK)
                rest, begun = machine.unconsumed_tail, True
                if data:
                    yield data
                if machine.eof:
                    self._budget.spend(steps=1)
                    rest = machine.unused_data
                    machine, begun = zlib.decompressobj(31), False
        while data := machine.decompress(b"", _CHUNK):
            yield data
        if begun and not machine.eof:
            raise ValueError("the gzip stream ends in the middle")

    def _slices(self) -> Iterator[bytes]:
        """The blob in smaller pieces."""
        for piece in self._pieces():
            for at in range(0, len(piece), _SLICE):
                yield piece[at : at + _SLICE]


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Alone with a file; waits for others."""
    descriptor = os.open(path, _LOCK, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def private(path: str) -> None:
    """Make a directory of ours, and those above it; nobody else may look into it. Raises OSError,
    ValueError."""
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not ours or stat.S_IMODE(found.st_mode) & 0o077:
            raise ValueError(f"{path} is open to others: look into it, then remove it") from None
