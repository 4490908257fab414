"""What the desired state needs of its surroundings: manifest files, and a place for assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from qoslet.core.api.manifest_set import FileChange
from qoslet.core.problem import Problem
from qoslet.errors import BadInput


class ManifestReader(Protocol):
    """Manifest files that may change (``host.files.watched_manifests``)."""

    def changes(self) -> Sequence[FileChange]:
        """The files that changed since the last call."""

    @property
    def faults(self) -> Sequence[BadInput]:
        """The paths that cannot be read."""

    def rows(self) -> Iterable[Problem]:
        """What keeps files from being read as they are."""

    def follows(self, file: str) -> bool:
        """Whether a file, as it is shown, is among those that are read, or would be if it was there."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``changes`` may have something."""

    def wake(self, seconds: float = 0.0) -> None:
        """Be readable in ``seconds``."""


class CheckpointStore(Protocol):
    """Keeps which pod has which CPUs and memory (``host.state.manager_checkpoint``)."""

    def read(self) -> Mapping[str, bytes]:
        """What an earlier run left, by file name. Raises CannotDo."""

    def write(self, contents: Mapping[str, bytes]) -> bool:
        """Save this; returns whether it differs from what was saved. Raises OSError."""
