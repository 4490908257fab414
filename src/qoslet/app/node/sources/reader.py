"""One way to the pods of a node, as the choice among several needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from qoslet.core.api.schema import DECODE_ERRORS
from qoslet.core.node.running_kubelet.pods_reading import PodSourceName


class Seen(Struct, frozen=True):
    """What a reader was told. ``stamp`` differs with each answer; ``complete``: every pod of the node
    is in it; ``tells_removals``: a pod that lacks was said to be gone. ``running``: UIDs that the
    runtime has, None where it was not asked; ``note``: what lacks."""

    pods: bytes
    place: str
    stamp: float
    complete: bool = True
    tells_removals: bool = False
    running: frozenset[str] | None = None
    note: str = ""


class PodReader(Protocol):
    """Reads pods. ``interval_seconds`` is how often it is worth it."""

    @property
    def source(self) -> PodSourceName:
        """Its name in a reading."""

    @property
    def interval_seconds(self) -> float:
        """How long an answer is taken as it was."""

    def read(self, known: frozenset[str]) -> Seen:
        """The pods now; ``known`` are the UIDs that are thought to be there. Raises QosletError."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``read`` has something new before its interval is over."""

    def rest(self) -> None:
        """Ask nothing until the next ``read``: another source is used."""


class _Metadata(Struct, frozen=True):
    uid: str = ""


class _Pod(Struct):
    metadata: _Metadata = _Metadata()


class _PodList(Struct):
    items: list[_Pod] | None = None


def uids_of(pods: bytes) -> frozenset[str]:
    """The UIDs of a PodList in JSON; none of other text."""
    try:
        found = msgspec.json.decode(pods, type=_PodList)
    except DECODE_ERRORS:
        return frozenset()
    return frozenset(one.metadata.uid for one in found.items or () if one.metadata.uid)
