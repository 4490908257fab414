"""The volumes of a pod that are no tmpfs for its data: directories on disk, files from objects and
fields, and the host's own paths.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

HostType = Literal[
    "",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
    "CharDevice",
    "BlockDevice",
]


class VolumeFile(Struct, frozen=True):
    """A file of a volume: its relative path, permission bits and content."""

    path: str
    mode: int
    data: bytes

    def __repr__(self) -> str:
        """Without the content."""
        return f"VolumeFile({self.path!r}, {self.mode:o}, {len(self.data)} bytes)"


class DiskVolume(Struct, frozen=True, omit_defaults=True, tag_field="form", tag="disk"):
    """An ``emptyDir`` on disk. ``group`` owns it (fsGroup)."""

    name: str
    group: int | None = None


class FilesVolume(Struct, frozen=True, omit_defaults=True, tag_field="form", tag="files"):
    """Files of ConfigMaps, Secrets and pod fields, read-only for containers; ``secret`` ones never
    touch a disk."""

    name: str
    group: int | None = None
    files: tuple[VolumeFile, ...] = ()
    secret: bool = False


class HostVolume(Struct, frozen=True, omit_defaults=True, tag_field="form", tag="host"):
    """A path of the host, checked or created as its ``type`` says."""

    name: str
    path: str = "/"
    type: HostType = ""


FolderVolume = DiskVolume | FilesVolume | HostVolume
