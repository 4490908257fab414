"""The pods of one node by list and watch: what to ask next, and what follows from the answers.

No input, no output and no clock: whoever drives it sends the requests and waits. The set is replaced
only by a whole list, and a pod leaves it only by that or by its own DELETED.

Source: client-go ``tools/cache`` Reflector; Kubernetes API concepts, "resource versions".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec
from msgspec import Struct

from qoslet.core.node.cluster.messages import (
    Event,
    Malformed,
    PodKey,
    PodObject,
    Status,
    event_of,
    page_of,
    refusal,
)
from qoslet.core.node.cluster.retries import FIRST_SECONDS, wait_seconds, watch_seconds

PATH = "/api/v1/pods"
PAGE_SIZE = 500
_GONE, _TOO_LARGE = 410, "ResourceVersionTooLarge"


class Request(Struct, frozen=True):
    """GET ``PATH`` with ``query``, after ``wait`` seconds. ``is_watch``: lines follow; else a page."""

    query: Mapping[str, str]
    wait: float = 0.0
    is_watch: bool = False


class _List(Enum):
    """How old the answer to a list may be."""

    NOT_OLDER = "not older than what was seen, from the server's cache"
    NEWEST = "as etcd has it"


class PodReflector:
    """The pods with ``spec.nodeName`` ``node``. Ask ``next_request``; tell ``page``, ``line``, ``ended``
    and ``silent`` what comes, ``refused`` and ``broken`` what goes wrong."""

    def __init__(self, node: str) -> None:
        self._selector = f"spec.nodeName={node}"
        self._pods: dict[PodKey, PodObject] = {}
        self._version = ""
        self._listing: dict[PodKey, PodObject] | None = {}
        self._next_page = ""
        self._list = _List.NOT_OLDER
        self._failures = 0
        self._asked_for = 0.0
        self._has_asked = False
        self.changes = 0
        """Rises whenever the set is another."""
        self.is_complete = False
        """Whether a whole list was read."""
        self.fault = ""
        """What keeps the set from being followed at the moment; empty where nothing does."""

    def next_request(self, chance: float) -> Request:
        """What to ask now; ``chance`` lies in 0..1."""
        wait = wait_seconds(self._failures, chance, self._asked_for) if self._failures else 0.0
        if not self._has_asked:
            wait, self._has_asked = FIRST_SECONDS * chance, True
        query = {"fieldSelector": self._selector}
        if self._listing is None:
            query |= {"watch": "true", "allowWatchBookmarks": "true"}
            query |= {"resourceVersion": self._version}
            query["timeoutSeconds"] = str(watch_seconds(chance))
            return Request(query, wait, True)
        query["limit"] = str(PAGE_SIZE)
        if self._next_page:
            query["continue"] = self._next_page
        elif self._list is _List.NOT_OLDER:
            query["resourceVersion"] = self._version or "0"
            query["resourceVersionMatch"] = "NotOlderThan"
        return Request(query, wait)

    def page(self, body: bytes) -> None:
        """A page of the list came."""
        listing = self._listing if self._listing is not None else {}
        try:
            found = page_of(body)
        except Malformed as error:
            self.broken(str(error))
            return
        listing.update((pod.key, pod) for pod in found.pods)
        self._went_well()
        if found.next:
            self._listing, self._next_page = listing, found.next
            return
        if listing != self._pods or not self.is_complete:
            self.changes += 1
        self._pods, self._version = listing, found.version
        self._listing, self._next_page, self._list = None, "", _List.NOT_OLDER
        self.is_complete = True

    def line(self, line: bytes) -> bool:
        """A line of the watch came; whether the watch goes on."""
        try:
            event = event_of(line)
        except Malformed as error:
            self.broken(str(error))
            self._list_again()
            return False
        if isinstance(event, Status):
            self.refused(event)
            return False
        self._went_well()
        self._version = event.version
        if event.pod is not None:
            self._apply(event, event.pod)
        return True

    def _apply(self, event: Event, pod: PodObject) -> None:
        known = self._pods.get(pod.key)
        if event.kind == "DELETED":
            # of another UID: the pod that has the name now stays
            if known is None or known.uid != pod.uid:
                return
            del self._pods[pod.key]
        elif known == pod:
            return
        else:
            self._pods[pod.key] = pod
        self.changes += 1

    def opened(self) -> None:
        """The server took the watch: what was seen is followed again."""
        self.fault = ""

    def ended(self, *, in_time: bool) -> None:
        """The watch ended as ends go. ``in_time``: not before the time that was asked for."""
        if in_time:
            self._went_well()
        else:
            self.broken("the API server ended the watch early")

    def silent(self) -> None:
        """Nothing came on the watch for long: a list tells what it may have missed."""
        self._went_well()
        self._list_again()

    def refused(self, status: Status) -> None:
        """The server answered with a status that is no success, or sent it on the watch."""
        grant = "; grant list and watch on pods" if status.code == 403 else ""
        self.broken(f"the API server {refusal(status)}{grant}", status.retry_seconds)
        if status.code == _GONE or status.reason in ("Expired", "Gone"):
            # a page of an older list cannot be continued; a list itself is never too old
            if self._next_page:
                self._list = _List.NEWEST
            self._list_again()
        elif _TOO_LARGE in status.causes:
            # the server's data is older than what we saw: it was restored
            self._list = _List.NEWEST
            self._list_again()

    def broken(self, why: str, wait: float = 0.0) -> None:
        """A request could not be made, or what came is broken off or malformed. What was seen stays,
        and the next request goes on from there."""
        self._failures += 1
        self._asked_for, self.fault = wait, why

    def _list_again(self) -> None:
        self._listing, self._next_page = {}, ""

    def _went_well(self) -> None:
        self._failures, self._asked_for, self.fault = 0, 0.0, ""

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    def uids(self) -> frozenset[str]:
        """The UIDs of the pods."""
        return frozenset(one.uid for one in self._pods.values())

    def pod_list(self) -> bytes:
        """The pods as a PodList in JSON, by namespace and name."""
        rows = sorted(self._pods.values(), key=lambda one: (one.key.namespace, one.key.name))
        head = {"kind": "PodList", "apiVersion": "v1", "metadata": {}}
        return msgspec.json.encode({**head, "items": [one.data for one in rows]})
