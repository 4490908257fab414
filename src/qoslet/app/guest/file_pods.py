"""The pods of a file, for an agent beside a kubelet."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from qoslet.core.api.schema import shown
from qoslet.core.node.running_kubelet.pods_reading import PodsReading
from qoslet.errors import CannotDo
from qoslet.host.files.manifests import open_file
from qoslet.host.files.watched_node import NodeFiles


class FilePods:
    """Reads a PodList from a file whenever it changes; matches ``PodSource``."""

    def __init__(self, path: str, *, strict: bool) -> None:
        self._path = path
        self._strict = strict
        self._files = NodeFiles([path], time.monotonic, strict=strict)
        self._last: PodsReading | None = None
        self._is_asked = False

    def poll(self, *, asks: bool = True) -> PodsReading:
        """What the file said when it changed last. Raises QosletError while it said nothing."""
        changed, asked = self._files.changed(), self._is_asked
        self._is_asked = False
        if self._last is not None and not changed:
            if asked:
                self._last = replace(self._last, at=time.monotonic())
            return self._last
        version = 1 if self._last is None else self._last.version + 1
        try:
            with open(open_file(self._path, self._strict), "rb") as file:
                pods = file.read()
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            raise CannotDo(message, where=shown(self._path)) from error
        self._last = PodsReading(version, pods, shown(self._path), "file", at=time.monotonic())
        return self._last

    def refresh(self) -> None:
        """The next ``poll`` says that the file is as it is now."""
        self._is_asked = True

    def descriptors(self) -> Sequence[int]:
        """Readable when the file may have changed."""
        return self._files.descriptors()

    def next_at(self) -> float | None:
        """The descriptors tell."""
        return None

    def close(self) -> None:
        """Follow the file no longer."""
        self._files.close()
