"""The pods of a PodList as the kubelet prints it, as far as it takes to know which they are."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct


class _Spec(Struct):
    nodeName: str | None = None  # noqa: N815


class _Metadata(Struct):
    uid: str = ""
    name: str = ""
    namespace: str = "default"


class _Pod(Struct):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


class _PodList(Struct):
    items: list[_Pod] | None = None


class ListedPod(Struct, frozen=True):
    """A pod; ``node`` is empty where it names none."""

    namespace: str
    name: str
    uid: str
    node: str


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
            (one.spec.nodeName if one.spec is not None else None) or "",
        )
        for one in found.items or ()
        if one.metadata is not None
    ]


def node_of(pods: Iterable[ListedPod]) -> str | None:
    """The one node that they name."""
    names = {one.node for one in pods if one.node}
    return names.pop() if len(names) == 1 else None
