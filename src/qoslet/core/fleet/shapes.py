"""Pods without what tells them apart: as many as decide about other values, whatever their number.

A shape is a ``Pod`` without name, UID and place. Its key is text, so that processes that read
parts of the input agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from qoslet.core.api.memory_annotations import NO_POLICY
from qoslet.core.api.pod import Container, Pod, Resources


class Member(Struct, frozen=True, gc=False):
    """A pod of a shape: ``key`` is its namespace and name, ``number`` its place among all."""

    number: int
    key: str
    uid: str
    file: str


def shape_of(pod: Pod) -> Pod:
    """The shape of a pod."""
    containers = tuple(
        Container(c.name, c.role, c.field, c.resources, None, c.defaulted) for c in pod.containers
    )
    return Pod(
        "",
        "",
        "",
        "",
        containers,
        resources=pod.resources,
        overhead=pod.overhead,
        os=pod.os,
        critical=pod.critical,
        node_critical=pod.node_critical,
        status_qos=pod.status_qos,
        isolation=pod.isolation,
        defaulted=pod.defaulted,
        memory=pod.memory,
        platform=pod.platform,
        written=pod.written,
    )


def quick_key(pod: Pod) -> object:
    """A key of the shape among pods of one reader, which gives equal resources as one object."""
    return (
        *[(c.name, c.role, c.field, id(c.resources), c.defaulted) for c in pod.containers],
        id(pod.resources) if pod.resources is None else repr(plain(pod.resources)),
        repr(plain(pod.overhead)) if pod.overhead else "",
        pod.os,
        pod.critical,
        pod.node_critical,
        pod.status_qos,
        pod.isolation,
        pod.platform,
        "" if pod.memory is NO_POLICY else repr(plain(pod.memory)),
        None if pod.written is None else repr(plain(pod.written)),
    )


def key_of(shape: Pod) -> str:
    """The key of a shape, the same in every process."""
    return repr(plain(shape))


def member(shape: Pod, one: Member) -> Pod:
    """The pod that a member of a shape stands for."""
    namespace, _, name = one.key.partition("/")
    where = f"{one.file}: Pod {one.key}"
    return replace(shape, namespace=namespace, name=name, uid=one.uid, where=where)


def plain(value: Any) -> Any:
    """The value as tuples, texts and numbers, equal for equal values."""
    if isinstance(value, Struct):
        return (type(value).__name__, *[plain(one) for one in astuple(value)])
    if isinstance(value, dict):
        return [(key, plain(one)) for key, one in value.items()]
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, frozenset):
        return sorted(plain(one) for one in value)
    return value


class Shapes:
    """Shapes by number, in the order in which they first came."""

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self._numbers: dict[str, int] = {}
        self._resources: dict[str, Resources] = {}

    def number(self, key: str, shape: Pod) -> int:
        """The number of a shape of that key."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.pods)
            self.pods.append(self._interned(shape))
        return found

    def add_all(self, pods: Iterable[Pod], start: int = 0) -> list[tuple[int, Member]]:
        """Pods that were read already, each with the number of its shape."""
        found = []
        for at, pod in enumerate(pods, start):
            shape = shape_of(pod)
            file = pod.where.rpartition(": Pod ")[0] or pod.where
            found.append((self.number(key_of(shape), shape), Member(at, pod.key, pod.uid, file)))
        return found

    def _interned(self, shape: Pod) -> Pod:
        """The shape with equal resources as one object, which templates are told by."""
        containers = tuple(
            replace(one, resources=self._one(one.resources)) for one in shape.containers
        )
        level = None if shape.resources is None else self._one(shape.resources)
        return replace(shape, containers=containers, resources=level)

    def _one(self, resources: Resources) -> Resources:
        return self._resources.setdefault(repr(plain(resources)), resources)
