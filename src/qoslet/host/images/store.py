"""Images unpacked: one directory for each chain of layers, made once, whole or not at all.

``FOLDER/images/<chain>/rootfs`` is never written again: containers get their own layer on top. The
name is the digest of what was unpacked (OCI image-spec config.md, ChainID), so equal layers are
unpacked once, whatever image they belong to.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from qoslet.host.images.layers import LayerChecker, Limits
from qoslet.host.images.layout import Image
from qoslet.host.images.sandbox import confined
from qoslet.host.images.umoci import (
    BLOBS,
    LAYOUT,
    ROOTFS,
    execute,
    find_umoci,
    settle,
    write_layout,
)
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.remove_tree import remove_tree

LIMITS = Limits(32 * 1024**3, 2_000_000, 600.0)
"""What one image may take."""

_OWN_BYTES = 16 * 1024**2
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def chain_of(diff_ids: tuple[str, ...]) -> str:
    """The ChainID of all layers, as a file name."""
    from hashlib import sha256

    chain = ""
    for one in diff_ids:
        chain = one if not chain else f"sha256:{sha256(f'{chain} {one}'.encode()).hexdigest()}"
    return (chain or f"sha256:{sha256().hexdigest()}").replace(":", "-")


class Store:
    """The unpacked images below ``folder``, which is made for us alone. ``program`` is umoci,
    looked up where none is given."""

    def __init__(self, folder: str, limits: Limits = LIMITS, program: str = "") -> None:
        self._folder = f"{folder}/images"
        self._limits = limits
        self._program = program

    def unpacked(self, image: Image) -> str:
        """The root file system of an image, unpacked if it is not yet. Waits for another that
        unpacks it. Raises CannotDo, OSError, ValueError; nothing of it stands then."""
        chain = chain_of(image.configuration.rootfs.diff_ids)
        whole = f"{self._folder}/{chain}"
        if not os.path.isdir(whole):
            program = self._program or find_umoci()
            private(self._folder)
            with _locked(f"{self._folder}/{chain}.lock"):
                if not os.path.isdir(whole):
                    self._make(image, whole, program)
        return f"{whole}/{ROOTFS}"

    def _make(self, image: Image, whole: str, program: str) -> None:
        """Unpack beside, and put it in its place when it is whole."""
        folder = f"{whole}.new"
        remove_tree(folder)
        os.makedirs(f"{folder}/{BLOBS}", 0o700)
        try:
            self._unpack(image, folder, program)
            remove_tree(f"{folder}/{LAYOUT}")
        except BaseException:
            remove_tree(folder)
            raise
        os.rename(folder, whole)

    def _unpack(self, image: Image, folder: str, program: str) -> None:
        """Unpack in ``folder``; the checks and umoci are children that cannot write elsewhere."""
        size, _, seconds = self._limits
        if (total := sum(layer.size for layer in image.manifest.layers)) > size:
            raise ValueError(f"layers of {total} bytes, at most {size}")

        def unpack() -> None:
            checker = LayerChecker(BLOBS, self._limits)
            ids = image.configuration.rootfs.diff_ids
            layers = []
            for layer, diff_id in zip(image.manifest.layers, ids, strict=True):
                with image.layout.blob(layer) as blob:
                    layers.append(checker.add(blob, layer, diff_id))
            write_layout(layers)
            execute(program)

        # the plain layers, the files in them, and umoci's own few
        most = 2 * size + _OWN_BYTES
        confined(unpack, folder, most, seconds)
        confined(lambda: settle(self._limits), folder, most, seconds)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Alone with a file; waits for others."""
    with owned(os.open(path, _LOCK, 0o600)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


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
