"""One way to the pods of a node, as the choice among several needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.annotations import CONFIG_HASH, CONFIG_MIRROR
from qoslet.core.api.schema import DECODE_ERRORS
from qoslet.core.node.running_kubelet.pods_reading import PodSourceName


class Seen(Struct, frozen=True):
    """What a reader was told. ``stamp``, monotonic seconds, differs with each answer; ``complete``:
    every pod of the node is in it; ``tells_removals``: a pod that lacks was said to be gone.
    ``running``: UIDs of pods that are known to run; ``note``: what lacks; ``is_usual``: it will not
    lack for long; ``is_live``: a change would have been told, so it holds until now."""

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


class _Metadata(Struct, frozen=True):
    uid: str = ""
    annotations: dict[str, str] | None = None

    @property
    def own_uid(self) -> str:
        """That of the pod itself: an API server has static pods as mirrors, with UIDs of their own."""
        annotations = self.annotations or {}
        if CONFIG_MIRROR not in annotations:
            return self.uid
        return annotations.get(CONFIG_HASH) or annotations[CONFIG_MIRROR]


class _Spec(Struct, frozen=True):
    containers: tuple[Raw, ...] = ()


class _Container(Struct, frozen=True, rename={"id": "containerID"}):
    id: str = ""


class _Status(Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: tuple[_Container, ...] | None = None


class _Pod(Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _RawList(Struct):
    items: list[Raw] | None = None


class _PodList(Struct):
    items: list[_Pod] | None = None


def uids_of(pods: bytes) -> frozenset[str]:
    """The UIDs of a PodList in JSON; none of other text."""
    return frozenset(uid for one in _items(pods) if (uid := one.metadata.own_uid))


def with_pods_of(pods: bytes, known: bytes, uids: frozenset[str]) -> bytes | None:
    """A PodList with those of the pods ``known`` that have these UIDs, too; None where one of both is
    no list in JSON."""
    try:
        listed = msgspec.json.decode(pods, type=_RawList).items or []
        before = msgspec.json.decode(known, type=_RawList).items or []
        kept = [
            one for one in before if msgspec.json.decode(one, type=_Pod).metadata.own_uid in uids
        ]
    except DECODE_ERRORS:
        return None
    return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "items": [*listed, *kept]})


def lacks_ids(pods: bytes) -> bool:
    """Whether a pod of a PodList that has not ended has containers without an ID in its status."""
    for one in _items(pods):
        known = sum(bool(row.id) for row in one.status.container_statuses or ())
        if known < len(one.spec.containers) and one.status.phase not in ("Succeeded", "Failed"):
            return True
    return False


def _items(pods: bytes) -> list[_Pod]:
    try:
        return msgspec.json.decode(pods, type=_PodList).items or []
    except DECODE_ERRORS:
        return []
