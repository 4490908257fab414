"""Volumes that are names only; match ``agent.ports.Volumes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoslet.core.workload.process_spec import PodVolume


class SimVolumes:
    """Provides every volume as a name."""

    def __init__(self) -> None:
        self._there: dict[str, tuple[str, ...]] = {}

    def provide(self, uid: str, volumes: Sequence[PodVolume]) -> Mapping[str, str]:
        """The name of a directory that is not there for each volume."""
        self._there[uid] = tuple(volume.name for volume in volumes)
        return {volume.name: f"/{uid}/{volume.name}" for volume in volumes}

    def remove(self, uid: str) -> bool:
        """Forget a pod's volumes."""
        self._there.pop(uid, None)
        return True

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        """Those that were provided."""
        return dict(self._there)
