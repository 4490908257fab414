"""What a container writes in its image: a layer of its own over the image's file tree.

Source: Documentation/filesystems/overlayfs.rst.
"""

from __future__ import annotations

import errno
import os

from qoslet.errors import CannotDo
from qoslet.host.linux.mount_syscalls import mount
from qoslet.host.oci.bundle_folder import ContainerFiles


def add_writable_layer(place: ContainerFiles, tree: str) -> None:
    """Mount the container's file tree, which it may change, over one that it may not. Raises OSError, ``CannotDo``
    where the file system of what is written takes no such layer."""
    upper, work = f"{place.written}/upper", f"{place.written}/work"
    os.makedirs(upper, 0o755, exist_ok=True)
    os.makedirs(work, 0o700, exist_ok=True)
    found = os.stat(tree)
    os.chown(upper, found.st_uid, found.st_gid)
    os.chmod(upper, found.st_mode & 0o7777)
    os.mkdir(place.rootfs, 0o755)
    options = f"lowerdir={_escaped(tree)},upperdir={_escaped(upper)},workdir={_escaped(work)}"
    try:
        mount("overlay", place.rootfs, "overlay", 0, options)
    except OSError as error:
        raise no_layer(error, place.engine.storage) from error


def no_layer(error: OSError, storage: str) -> OSError | CannotDo:
    """Why an overlay could not be mounted: of a file system below ``storage`` that takes none, the kernel
    says "Invalid argument" of the mount point."""
    if error.errno != errno.EINVAL:
        return error
    return CannotDo(
        f"{error.strerror}: the file system there cannot hold the upper directory of an overlay"
        " (overlayfs, NFS and FUSE cannot)",
        where=storage,
        hint="--storage DIR on another one, or mount one there",
    )


def _escaped(path: str) -> str:
    """A path as an option of overlayfs."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
