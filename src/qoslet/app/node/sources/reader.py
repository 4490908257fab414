"""One way to the pods of a node, as the choice among several needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.core.node.running_kubelet.pods_reading import PodSourceName


class Seen(Struct, frozen=True):
    """What a reader was told. ``stamp``, monotonic seconds, differs with each answer; ``complete``:
    every pod of the node is in it; ``tells_removals``: a missing pod was said to be gone.
    ``running``: UIDs of pods that are known to run; ``note``: what is missing; ``is_usual``: it will not
    be for long; ``is_live``: a change would have been told, so it holds until now."""

    pods: bytes
    place: str
    stamp: float
    complete: bool = True
    tells_removals: bool = False
    running: frozenset[str] = frozenset()
    note: str = ""
    is_usual: bool = False
    is_live: bool = False


class PodReader(Protocol):
    """Reads pods. ``interval_seconds`` is how often it is worth it."""

    @property
    def source(self) -> PodSourceName:
        """Its name in a reading."""

    @property
    def interval_seconds(self) -> float:
        """How long an answer is taken as it was."""

    @property
    def requests(self) -> int:
        """How many were sent to an API server."""

    def read(self, known: frozenset[str]) -> Seen:
        """The pods now; ``known`` are the UIDs that are thought to be there. Raises QosletError."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``read`` has something new before its interval is over."""

    def rest(self) -> None:
        """Ask nothing until the next ``read``: another source is used."""
