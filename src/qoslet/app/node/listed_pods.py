"""The pods of a PodList as the kubelet prints it, as far as it takes to know which they are."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct


class _Spec(Struct, rename="camel"):
    node_name: str | None = None


class _Metadata(Struct):
    uid: str = ""
    name: str = ""
    namespace: str = "default"


class _Container(Struct, rename={"id": "containerID"}):
    id: str | None = None


class _Status(Struct, rename="camel"):
    container_statuses: list[_Container] | None = None


class _Pod(Struct):
    metadata: _Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class _PodList(Struct):
    items: list[_Pod] | None = None


class ListedPod(Struct, frozen=True):
    """A pod; ``node`` is empty where it names none. ``runtimes`` are those of its containers' IDs."""

    namespace: str
    name: str
    uid: str
    node: str
    runtimes: frozenset[str]


def listed_pods(pods: bytes) -> list[ListedPod]:
    """The pods of a list; none where it cannot be read."""
    try:
        found = msgspec.json.decode(pods, type=_PodList)
    except msgspec.ValidationError:
        return []
    return [
        ListedPod(
            one.metadata.namespace,
            one.metadata.name,
            one.metadata.uid,
            (one.spec.node_name if one.spec is not None else None) or "",
            _runtimes(one.status),
        )
        for one in found.items or ()
        if one.metadata is not None
    ]


def _runtimes(status: _Status | None) -> frozenset[str]:
    rows = (status.container_statuses if status is not None else None) or ()
    ids = (one.id or "" for one in rows)
    return frozenset(scheme for scheme, _, id in (one.partition("://") for one in ids) if id)


def runtime_of(pods: Iterable[ListedPod]) -> str | None:
    """The one container runtime whose IDs they have, where cgroups are named after it."""
    names = frozenset[str]().union(*(one.runtimes for one in pods))
    return next(iter(names)) if len(names) == 1 and names <= {"containerd", "cri-o"} else None


def node_of(pods: Iterable[ListedPod]) -> str | None:
    """The one node that they name."""
    names = {one.node for one in pods if one.node}
    return names.pop() if len(names) == 1 else None
