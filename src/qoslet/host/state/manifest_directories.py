"""Keeps which directories had the manifests of a root: an empty one that the next agent finds in
the place of one of them is none whose manifests were removed."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from qoslet.errors import QosletError
from qoslet.host.state.folder import MANIFEST_DIRECTORIES
from qoslet.host.state.manager_checkpoint import StateFiles

Identities = Mapping[str, tuple[int, int]]
"""Device and inode of directories by their absolute path."""


class ManifestDirectories:
    """One file of one folder."""

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{MANIFEST_DIRECTORIES}"
        self._files = StateFiles(folder, (MANIFEST_DIRECTORIES,))
        self._kept: Identities = {}

    def load(self) -> Identities:
        """What was kept; empty where nothing was, or it is none of ours to trust."""
        try:
            data = self._files.read().get(MANIFEST_DIRECTORIES, b"{}")
            self._kept = msgspec.json.decode(data, type=dict[str, tuple[int, int]])
        except (QosletError, msgspec.MsgspecError):
            self._kept = {}
        return self._kept

    def save(self, found: Identities) -> None:
        """Keep them, where they are others than before. Without room, it is tried again when they
        are asked for next."""
        if found == self._kept and (not found or os.path.lexists(self._path)):
            return
        try:
            self._files.remove()
            self._files.write({MANIFEST_DIRECTORIES: msgspec.json.encode(found)})
        except OSError:
            return
        self._kept = found
