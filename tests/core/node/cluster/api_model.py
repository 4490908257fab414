"""An API server made of values: pods with versions, a history that is forgotten, lists in pages,
watches. What it answers has the shape of ``tests/data/cluster``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
OWN, OTHER = "n1", "n2"


def status(code: int, reason: str, cause: str = "", retry: int = 0, next: str = "") -> bytes:
    """A Status as an API server answers with."""
    details: Json = {}
    if cause:
        details["causes"] = [{"reason": cause, "message": cause}]
    if retry:
        details["retryAfterSeconds"] = retry
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": next} if next else {},
            "status": "Failure",
            "message": reason,
            "reason": reason,
            "details": details,
            "code": code,
        }
    ).encode()


class ApiModel:
    """``history`` holds the pods of each version by name; ``oldest`` is the first version that a
    watch may begin with."""

    def __init__(self, page: int | None = None) -> None:
        self.version = 100
        self.oldest = 0
        self.page = page
        self.pods: dict[str, Json] = {}
        self.history: dict[int, dict[str, Json]] = {100: {}}
        self.events: list[tuple[int, str, Json]] = []

    def put(self, name: str, node: str = OWN, uid: str = "", **extra: Any) -> None:
        """Make a pod, or change it."""
        known = self.pods.get(name)
        kind = "MODIFIED" if known and (not uid or uid == known["metadata"]["uid"]) else "ADDED"
        if kind == "ADDED" and known:
            self.remove(name)
        uid = uid or (known["metadata"]["uid"] if known else f"uid-{name}-{self.version}")
        node = known["spec"]["nodeName"] if kind == "MODIFIED" and known else node
        self._next()
        metadata = {"name": name, "namespace": "default", "uid": uid}
        metadata["resourceVersion"] = str(self.version)
        spec = {"nodeName": node, "containers": [{"name": "app", "image": "a"}], **extra}
        pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
        self.pods[name] = pod
        self._record(kind, pod)

    def remove(self, name: str) -> None:
        """Delete a pod; its last event has the version of the deletion."""
        pod = self.pods.pop(name, None)
        if pod is None:
            return
        self._next()
        gone = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self.version)}}
        self._record("DELETED", gone)

    def _next(self) -> None:
        self.version += 1

    def _record(self, kind: str, pod: Json) -> None:
        self.events.append((self.version, kind, pod))
        self.history[self.version] = dict(self.pods)

    def compact(self) -> None:
        """Forget the history: older watches and continued lists are gone."""
        self.oldest = self.version

    def restore(self, version: int) -> None:
        """Be as at an earlier version, as after a restored backup."""
        earlier = max(one for one in self.history if one <= version)
        self.pods, self.version = dict(self.history[earlier]), earlier
        self.events = [one for one in self.events if one[0] <= earlier]
        self.history = {at: pods for at, pods in self.history.items() if at <= earlier}
        self.oldest = min(self.oldest, earlier)

    def of_node(self, version: int | None = None, node: str = OWN) -> dict[str, str]:
        """The pods of a node by name, each with its UID and version."""
        found = self.pods if version is None else self.history[version]
        return {
            name: f"{pod['metadata']['uid']}@{pod['metadata']['resourceVersion']}"
            for name, pod in found.items()
            if pod["spec"]["nodeName"] == node
        }

    def list_page(self, query: Mapping[str, str]) -> tuple[int, bytes]:
        """A page of the list that a query asks for."""
        node = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        version, start = self.version, ""
        if "continue" in query:
            assert "resourceVersion" not in query, "the server refuses both"
            text, _, start = query["continue"].partition("/")
            version = int(text)
            if version < self.oldest or version not in self.history:
                return 410, status(410, "Expired", next=f"{self.version}/{start}")
        elif int(query.get("resourceVersion", "0")) > self.version:
            return 504, status(504, "Timeout", "ResourceVersionTooLarge", 1)
        version = max(one for one in self.history if one <= version)
        names = sorted(
            name
            for name, pod in self.history[version].items()
            if node in ("", pod["spec"]["nodeName"]) and name > start
        )
        size = min(int(query["limit"]), self.page or len(names) or 1)
        chosen, rest = names[:size], names[size:]
        metadata: Json = {"resourceVersion": str(version)}
        if rest:
            metadata |= {"continue": f"{version}/{chosen[-1]}", "remainingItemCount": len(rest)}
        items = [self.history[version][name] for name in chosen]
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items or None}
        return 200, json.dumps(body).encode()

    def watch(self, query: Mapping[str, str]) -> list[bytes]:
        """The lines of a watch up to now; the last one is a bookmark, where they are asked for."""
        node = query["fieldSelector"].removeprefix("spec.nodeName=")
        since = int(query["resourceVersion"])
        if since < self.oldest or since > self.version:
            # a version of the future is waited for, and then found to be gone
            return [line("ERROR", json.loads(status(410, "Expired")))]
        rows = [
            line(kind, {"kind": "Pod", "apiVersion": "v1", **pod})
            for version, kind, pod in self.events
            if version > since and pod["spec"]["nodeName"] == node
        ]
        if query.get("allowWatchBookmarks") == "true":
            head = {"metadata": {"resourceVersion": str(self.version), "creationTimestamp": None}}
            rows.append(line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", **head, "spec": {}}))
        return rows


def line(kind: str, found: Json) -> bytes:
    """An event as a line."""
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"
