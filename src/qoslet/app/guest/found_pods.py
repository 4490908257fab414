"""The pods of the kubelet that runs here, or of a file, for an agent beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from qoslet.app.node.found_node import PODS, FoundNode
from qoslet.core.api.schema import shown
from qoslet.core.node.running_kubelet.pods_reading import PodsReading
from qoslet.errors import CannotDo, QosletError
from qoslet.host.files.manifests import open_file
from qoslet.host.files.watched_node import NodeFiles

POLL_SECONDS = 10.0
"""Between two questions to a kubelet."""


class KubeletPods:
    """Asks the kubelet now and then; matches ``PodSource``. ``find`` gives its node."""

    def __init__(self, find: Callable[[], FoundNode]) -> None:
        self._find = find
        self._last: PodsReading | None = None
        self._at = float("-inf")

    def poll(self) -> PodsReading:
        """What it said last, or says now. Raises QosletError while it said nothing."""
        now = time.monotonic()
        if self._last is not None and now < self._at + POLL_SECONDS:
            return self._last
        self._at = now
        try:
            self._last = self._read(now)
        except QosletError as error:
            if self._last is None:
                raise
            from msgspec.structs import replace

            self._last = replace(self._last, complete=False, reason=str(error))
        return self._last

    def _read(self, now: float) -> PodsReading:
        found = self._find()
        if found.pods is None:
            lacking = next(row for row in found.notes if row.topic == PODS)
            hint = "; ".join(filter(None, (lacking.remedy, lacking.cost)))
            raise CannotDo(f"the kubelet's pods: {lacking.value}", hint=hint)
        place, pods = found.pods
        last = self._last
        version = 1 if last is None else last.version + (last.pods != pods)
        from_kubelet = "://" in place
        reason = "" if from_kubelet else next(r.cost for r in found.notes if r.topic == PODS)
        return PodsReading(
            version,
            pods,
            place,
            "kubelet" if from_kubelet else "cri",
            reason=reason,
            running=found.running,
            at=now,
        )

    def descriptors(self) -> Sequence[int]:
        """Only time tells."""
        return ()

    def next_at(self) -> float | None:
        """When it is asked next."""
        return self._at + POLL_SECONDS

    def close(self) -> None:
        """Nothing is open."""


class FilePods:
    """Reads a PodList from a file whenever it changes; matches ``PodSource``."""

    def __init__(self, path: str, *, strict: bool) -> None:
        self._path = path
        self._strict = strict
        self._files = NodeFiles([path], time.monotonic, strict=strict)
        self._last: PodsReading | None = None

    def poll(self) -> PodsReading:
        """What the file said when it changed last. Raises QosletError while it said nothing."""
        changed = self._files.changed()
        if self._last is not None and not changed:
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

    def descriptors(self) -> Sequence[int]:
        """Readable when the file may have changed."""
        return self._files.descriptors()

    def next_at(self) -> float | None:
        """The descriptors tell."""
        return None

    def close(self) -> None:
        """Follow the file no longer."""
        self._files.close()
