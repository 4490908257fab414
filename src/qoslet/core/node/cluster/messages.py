"""What an API server answers to a list and sends on a watch of pods.

Source: Kubernetes API concepts (efficient detection of changes, retrieving large results sets in
chunks); apimachinery meta/v1 ``ListMeta``, ``WatchEvent``, ``Status``.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

LONGEST_LINE = 16 << 20
"""Bytes of one event of a watch. etcd takes 1.5 MiB for an object."""


class Malformed(ValueError):
    """What came is not what an API server sends."""


class PodKey(Struct, frozen=True):
    """What identifies a pod at a time; another UID under the name is another pod."""

    namespace: str
    name: str


class PodObject(Struct, frozen=True):
    """A pod as it came: ``data`` is its JSON."""

    key: PodKey
    uid: str
    data: Raw


class Page(Struct, frozen=True):
    """A page of a list. ``next`` asks for the next one, empty at the last; ``version`` is the same
    on every page."""

    version: str
    next: str
    pods: tuple[PodObject, ...]


class Event(Struct, frozen=True):
    """One event of a watch. ``version`` is where a later watch resumes, ``pod`` None on a bookmark."""

    kind: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    version: str
    pod: PodObject | None = None


class Status(Struct, frozen=True):
    """Why the server refused: its HTTP code, its reason as a word, and the reasons of causes. ``next``
    of an expired list asks for the rest as it is now."""

    code: int = 0
    reason: str = ""
    message: str = ""
    causes: frozenset[str] = frozenset()
    retry_seconds: float = 0.0
    next: str = ""


class _Metadata(Struct):
    name: str = ""
    namespace: str = "default"
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815


class _Pod(Struct):
    metadata: _Metadata
    spec: Raw = Raw()


class _ListMetadata(Struct, frozen=True):
    resourceVersion: str = ""  # noqa: N815
    next: str = msgspec.field(default="", name="continue")


class _List(Struct):
    kind: Literal["PodList"]
    metadata: _ListMetadata
    items: list[Raw] | None = None


class _Event(Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: Raw


class _Cause(Struct):
    reason: str = ""


class _Kind(Struct):
    kind: str
    apiVersion: str  # noqa: N815


class _Details(Struct):
    causes: list[_Cause] | None = None
    retryAfterSeconds: float = 0.0  # noqa: N815


class _Status(Struct):
    kind: Literal["Status"]
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None
    metadata: _ListMetadata = _ListMetadata()


_page = msgspec.json.Decoder(_List)
_event = msgspec.json.Decoder(_Event)
_pod = msgspec.json.Decoder(_Pod)
_status = msgspec.json.Decoder(_Status)
_kind = msgspec.json.Decoder(_Kind)
_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError)


def page_of(body: bytes) -> Page:
    """A page of a list of pods. Raises Malformed."""
    try:
        found = _page.decode(body)
        pods = tuple(_object(one)[0] for one in found.items or ())
    except _FAULTS as error:
        raise Malformed(f"the list is not a PodList: {error}") from None
    if not found.metadata.resourceVersion:
        raise Malformed("the list has no resourceVersion")
    return Page(found.metadata.resourceVersion, found.metadata.next, pods)


def event_of(line: bytes) -> Event | Status:
    """One line of a watch; the status of an ERROR. Raises Malformed."""
    try:
        found = _event.decode(line)
        if found.type == "ERROR":
            return _said(_status.decode(found.object))
        if found.type == "BOOKMARK":
            metadata = _pod.decode(found.object).metadata
            pod = None
        else:
            pod, metadata = _object(found.object)
    except _FAULTS as error:
        raise Malformed(f"the watch sends no event: {error}") from None
    if not metadata.resourceVersion:
        raise Malformed("an event has no resourceVersion")
    return Event(found.type, metadata.resourceVersion, pod)


def status_of(code: int, body: bytes, retry_seconds: float = 0.0) -> Status:
    """Why the server refused; of a body that is no Status only the code is known. ``retry_seconds``
    are those of the header."""
    try:
        found = _said(_status.decode(body))
    except _FAULTS:
        found = Status()
    retry = max(retry_seconds, found.retry_seconds)
    return msgspec.structs.replace(found, code=code, retry_seconds=retry)


def kind_of(body: bytes) -> str:
    """The kind of the object in an answer; empty where there is none: a proxy has answered."""
    try:
        return _kind.decode(body).kind
    except _FAULTS:
        return ""


def refusal(status: Status) -> str:
    """What the server answers, as the rest of a sentence about it."""
    said = status.message or status.reason
    if said:
        return f"answers {status.code}: {said}"
    return f"answers {status.code} and no reason, as a proxy or another server does"


def _said(status: _Status) -> Status:
    details = status.details or _Details()
    causes = frozenset(one.reason for one in details.causes or ())
    return Status(
        status.code,
        status.reason,
        status.message,
        causes,
        details.retryAfterSeconds,
        status.metadata.next,
    )


def _object(data: Raw) -> tuple[PodObject, _Metadata]:
    metadata = _pod.decode(data).metadata
    if not metadata.name or not metadata.uid:
        raise Malformed("a pod has no name or no UID")
    key = PodKey(metadata.namespace, metadata.name)
    # the text is a part of a page, which would be kept whole
    return PodObject(key, metadata.uid, Raw(bytes(data))), metadata
