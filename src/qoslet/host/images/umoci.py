"""Unpacks checked layers with ``umoci raw unpack``, and takes back what a root may not have.

umoci gets a layout of our own: one image whose layers are plain archives, named by their digests.
It runs in ``sandbox.confined``. What it makes and a container's root may not have is removed or
refused afterwards: devices, attributes that overlayfs would obey, more entries than there may be.

Source: umoci-raw-unpack(1); OCI image-spec image-layout.md; overlayfs.rst (trusted.overlay.*).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import json

from qoslet.errors import CannotDo
from qoslet.host.images.layers import Limits
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.programs import PATH, find_program

ROOTFS = "rootfs"
"""The directory that is made."""
LAYOUT = "layout"
BLOBS = f"{LAYOUT}/blobs/sha256"

_IMAGE = "application/vnd.oci.image"
_TAG = "image"
_KEPT_XATTRS = ("security.capability", "user.")
_FOREIGN_XATTRS = ("user.overlay.",)
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def find_umoci() -> str:
    """The path of umoci. Raises CannotDo where it is not installed."""
    program = find_program("umoci")
    if program is None:
        hint = "apt install umoci, or --rootfs IMAGE=DIRECTORY"
        raise CannotDo("umoci, which unpacks images, is not installed", hint=hint)
    return program


def write_layout(layers: Sequence[tuple[str, int]]) -> None:
    """Describe the layers in ``BLOBS`` as one image, in the working directory."""
    digests = [digest for digest, _ in layers]
    config = {"architecture": "", "os": "linux", "config": {}}
    config["rootfs"] = {"type": "layers", "diff_ids": digests}
    rows = [_descriptor("layer.v1.tar", digest, size) for digest, size in layers]
    manifest = {"schemaVersion": 2, "mediaType": f"{_IMAGE}.manifest.v1+json"}
    manifest |= {"config": _blob("config.v1+json", config), "layers": rows}
    row = _blob("manifest.v1+json", manifest)
    row["annotations"] = {"org.opencontainers.image.ref.name": _TAG}
    _write(f"{LAYOUT}/index.json", json.encode({"schemaVersion": 2, "manifests": [row]}))
    _write(f"{LAYOUT}/oci-layout", b'{"imageLayoutVersion":"1.0.0"}')


def _blob(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Write a document as a blob; its descriptor."""
    from hashlib import sha256

    data = json.encode(document)
    name = sha256(data).hexdigest()
    _write(f"{BLOBS}/{name}", data)
    return _descriptor(kind, f"sha256:{name}", len(data))


def _descriptor(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": f"{_IMAGE}.{kind}", "digest": digest, "size": size}


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def execute(program: str) -> None:
    """Become umoci, which makes ``ROOTFS`` in the working directory. Raises OSError."""
    os.umask(0o022)
    words = [program, "--log", "error", "raw", "unpack", "--image", f"{LAYOUT}:{_TAG}", ROOTFS]
    os.execve(program, words, {"PATH": PATH, "HOME": "/"})


def settle(limits: Limits) -> None:
    """Take back what a container's root may not have. Raises ValueError, OSError."""
    _settle_attributes(ROOTFS)
    count, folders = 0, [ROOTFS]
    while folders:
        folder = folders.pop()
        with owned(os.open(folder, _DIR)) as opened, os.scandir(opened) as entries:
            for entry in entries:
                count += 1
                if count > limits.entries:
                    raise ValueError(f"more than {limits.entries} entries")
                path = f"{folder}/{entry.name}"
                _settle_entry(opened, entry, path)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)


def _settle_entry(opened: int, entry: os.DirEntry[str], path: str) -> None:
    """Take back one entry, or its attributes."""
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        if not path.startswith(f"{ROOTFS}/dev/"):
            raise ValueError(f"{path.removeprefix(ROOTFS)!r}: is a device, which is never made")
        os.unlink(entry.name, dir_fd=opened)
    else:
        _settle_attributes(path)


def _settle_attributes(path: str) -> None:
    """Remove the extended attributes that are not an image's to set."""
    for name in os.listxattr(path, follow_symlinks=False):
        if not name.startswith(_KEPT_XATTRS) or name.startswith(_FOREIGN_XATTRS):
            os.removexattr(path, name, follow_symlinks=False)
