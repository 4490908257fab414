"""The pods of this node as one source has them: a kubelet, an API server, a container runtime, files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

PodSourceName = Literal["kubelet", "api", "cri", "file"]


class PodsReading(Struct, frozen=True):
    """What a source said last. ``version`` differs whenever ``pods`` does, a PodList as JSON (or the
    text of a file); ``place`` names it in messages. ``complete``: every pod of the node is in it;
    nothing follows from the absence of a pod in one that is not. ``reason``: why not the source
    before this one, and what is missing; empty where nothing is; ``is_settling``: that is usual, as
    while a pod is removed, and soon over. ``running`` are UIDs of pods that the
    container runtime has, where it was asked; ``at`` is monotonic seconds; ``requests`` counts what
    was sent to an API server for pods so far, whatever came of it."""

    version: int
    pods: bytes
    place: str
    source: PodSourceName
    complete: bool = True
    reason: str = ""
    running: frozenset[str] = frozenset()
    at: float = 0.0
    is_settling: bool = False
    requests: int = 0


class PodSource(Protocol):
    """Where an agent has the pods of its node from."""

    def poll(self, *, asks: bool = True) -> PodsReading:
        """The latest reading, the last good one while a source fails. Without ``asks`` no source is
        asked that may take long. Raises CannotDo while nothing was ever read."""

    def refresh(self) -> None:
        """Have the next ``poll`` ask again, however new the latest reading is."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``poll`` has something new."""

    def next_at(self) -> float | None:
        """When to call ``poll`` at the latest, in monotonic seconds; None: the descriptors tell."""

    def close(self) -> None:
        """Read nothing any more."""
