"""What containers print: one private file each, kept within bounds.

Containers write to their file themselves, so a slow reader never holds them up and the pages
are charged to their own group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from qoslet.core.podspec import PodSpec

LARGEST = 10 * 1024 * 1024
"""Bytes of a log before it is begun anew (kubelet containerLogMaxSize)."""


class Logs:
    """The logs of one run below ``folder``, which only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._titles: dict[Path, str] = {}

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    def open(self, spec: PodSpec, container: str) -> int:
        """The container's file, open for appending. Raises OSError."""
        namespace, _, name = spec.key.partition("/")
        folder = self._folder / f"{namespace}_{name}_{spec.uid}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        path = folder / f"{container}.log"
        self._titles[path] = f"{name}/{container}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, 0o600)

    def trim(self) -> None:
        """Begin files anew that have grown beyond ``LARGEST``."""
        for path in self._titles:
            try:
                if path.stat().st_size > LARGEST:
                    os.truncate(path, 0)
                    self._offsets[path] = 0
            except OSError:
                continue

    def fresh(self) -> Iterator[tuple[str, str]]:
        """Whole lines written since the last call, each as (``pod/container``, line)."""
        for path, title in self._titles.items():
            try:
                with path.open("rb") as file:
                    file.seek(self._offsets.get(path, 0))
                    data = file.read(1 << 20)
            except OSError:
                continue
            end = data.rfind(b"\n") + 1
            if end == 0 and len(data) == 1 << 20:
                end = len(data)
            self._offsets[path] = self._offsets.get(path, 0) + end
            for line in data[:end].decode("utf-8", "replace").splitlines():
                yield title, line
