"""The pods of a PodList, as far as it takes to know which they are and what their containers do.

The list is what a kubelet, an API server or a bundle has: input, of which nothing is believed but
its shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.annotations import CONFIG_HASH, CONFIG_MIRROR
from qoslet.core.api.schema import DECODE_ERRORS


class RunningState(Struct, frozen=True, rename="camel"):
    """Since when a container runs."""

    started_at: datetime | None = None


class TerminatedState(Struct, frozen=True, rename="camel"):
    """When a container ended."""

    finished_at: datetime | None = None


class ListedState(Struct, frozen=True):
    """What a container does; neither where it waits."""

    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ListedContainer(Struct, frozen=True, rename={"id": "containerID"}):
    """The status of a container; ``id`` as ``RUNTIME://ID``, empty until it was created."""

    name: str = ""
    id: str | None = None
    state: ListedState = ListedState()


class _Metadata(Struct, frozen=True, rename="camel"):
    uid: str = ""
    name: str = ""
    namespace: str = "default"
    generation: Any = None
    deletion_timestamp: Any = None
    annotations: dict[str, str] | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    node_name: str | None = None
    containers: tuple[Raw, ...] | None = None


class _Status(Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: tuple[ListedContainer, ...] | None = None
    init_container_statuses: tuple[ListedContainer, ...] | None = None
    ephemeral_container_statuses: tuple[ListedContainer, ...] | None = None


class ListedPod(Struct, frozen=True):
    """A pod of a list; what it lacks counts as empty."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def uid(self) -> str:
        """That of the pod itself: an API server has static pods as mirrors, with UIDs of their own."""
        annotations = self.metadata.annotations or {}
        if CONFIG_MIRROR not in annotations:
            return self.metadata.uid
        return annotations.get(CONFIG_HASH) or annotations[CONFIG_MIRROR]

    @property
    def full_name(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def has_ended(self) -> bool:
        """Whether its phase says so."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def was_changed(self) -> bool:
        """Whether its spec was, since it was created. A deletion counts as a generation, too."""
        generation = self.metadata.generation
        created = 2 if self.metadata.deletion_timestamp else 1
        return isinstance(generation, int) and generation > created

    @property
    def lacks_ids(self) -> bool:
        """Whether it has not ended and has containers without an ID in its status."""
        known = sum(bool(one.id) for one in self.status.container_statuses or ())
        return known < len(self.spec.containers or ()) and not self.has_ended

    def containers(self) -> Iterator[ListedContainer]:
        """The statuses of its containers, of each kind."""
        status = self.status
        yield from status.container_statuses or ()
        yield from status.init_container_statuses or ()
        yield from status.ephemeral_container_statuses or ()


class _PodList(Struct):
    items: list[ListedPod] | None = None


class _RawList(Struct):
    items: list[Raw] | None = None


def listed_pods(pods: bytes) -> Sequence[ListedPod]:
    """The pods of a PodList in JSON; none of other text."""
    try:
        return msgspec.json.decode(pods, type=_PodList).items or []
    except DECODE_ERRORS:
        return []


def uids_of(pods: bytes) -> frozenset[str]:
    """The UIDs of the pods of a PodList in JSON; none of other text."""
    return frozenset(uid for one in listed_pods(pods) if (uid := one.uid))


def with_pods_of(pods: bytes, known: bytes, uids: frozenset[str]) -> bytes | None:
    """A PodList with those of the pods ``known`` that have these UIDs, too; None where one of both is
    no list in JSON."""
    try:
        listed = msgspec.json.decode(pods, type=_RawList).items or []
        before = msgspec.json.decode(known, type=_RawList).items or []
        kept = [one for one in before if msgspec.json.decode(one, type=ListedPod).uid in uids]
    except DECODE_ERRORS:
        return None
    return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "items": [*listed, *kept]})


def runtime_of(pods: Iterable[ListedPod]) -> str | None:
    """The one container runtime whose IDs they have, where cgroups are named after it."""
    ids = (one.id or "" for pod in pods for one in pod.status.container_statuses or ())
    names = {scheme for scheme, _, id in (one.partition("://") for one in ids) if id}
    return next(iter(names)) if len(names) == 1 and names <= {"containerd", "cri-o"} else None


def node_of(pods: Iterable[ListedPod]) -> str | None:
    """The one node that they name."""
    names = {one.spec.node_name for one in pods if one.spec.node_name}
    return names.pop() if len(names) == 1 else None
