"""The part of an API server that evictions need, made of values: pods with owners and readiness, a
PodDisruptionBudget, Leases with versions, Events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qoslet.core.node.cluster.eviction_messages import EvictionRequest
from tests.core.node.cluster.api_model import Json, status

BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
LEASES = "/apis/coordination.k8s.io/v1/namespaces/qoslet/leases"
Answer = tuple[int, bytes]


def request(name: str, uid: str = "", node: str = "n1") -> EvictionRequest:
    """To evict ``d/NAME``."""
    return EvictionRequest("d", name, uid or f"uid-{name}", "app", node, "stalled at memory.high")


class EvictionModel:
    """``budget``: how many evictions a PodDisruptionBudget allows, None without one. ``replaces``:
    whether controllers make new pods. A deleted pod stays until ``end``. ``evicted`` lists the UIDs
    whose deletion was begun, in order."""

    def __init__(self, budget: int | None = None, *, replaces: bool = True) -> None:
        self.pods: dict[str, Json] = {}
        self.leases: dict[str, Json] = {}
        self.events: list[Json] = []
        self.budget = budget
        self.replaces = replaces
        self.evicted: list[str] = []
        self.made = 0
        self.grace: list[int] = []

    def put(
        self,
        name: str,
        owner: str = "ReplicaSet/web-5d9",
        ready: bool = True,
        uid: str = "",
        **labels: str,
    ) -> None:
        """Make a pod ``d/NAME`` of an owner (``KIND/NAME``)."""
        kind, _, of = owner.partition("/")
        found = {"app": of.partition("-")[0], "topology.kubernetes.io/zone": name, **labels}
        if kind == "ReplicaSet":
            found["pod-template-hash"] = of.rpartition("-")[2]
        owners = [{"kind": kind, "name": of, "uid": of, "controller": True}] if kind else []
        metadata: Json = {"name": name, "namespace": "d", "uid": uid or f"uid-{name}"}
        metadata |= {"labels": found, "ownerReferences": owners}
        self.pods[name] = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": metadata,
            "spec": {"terminationGracePeriodSeconds": 60},
            "status": {"phase": "Running", "conditions": []},
        }
        self.set_ready(name, ready)

    def set_ready(self, name: str, ready: bool = True) -> None:
        """Let a pod be Ready."""
        text = "True" if ready else "False"
        self.pods[name]["status"]["conditions"] = [{"type": "Ready", "status": text}]

    def end(self, name: str) -> None:
        """A deleted pod is gone; its controller makes another one, not Ready yet."""
        gone = self.pods.pop(name)
        if self.replaces:
            self.made += 1
            owner = gone["metadata"]["ownerReferences"][0]
            self.put(f"new-{self.made}", f"{owner['kind']}/{owner['name']}", ready=False)

    def ready(self) -> int:
        """How many pods serve."""
        return sum(
            one["status"]["conditions"][0]["status"] == "True"
            and "deletionTimestamp" not in one["metadata"]
            for one in self.pods.values()
        )

    def answer(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> Answer:
        """What the server says."""
        words = path.strip("/").split("/")
        if method == "GET" and words[-1] == "pods":
            return self._list(query)
        if method == "GET" and "pods" in words:
            pod = self.pods.get(words[-1])
            return (200, json.dumps(pod).encode()) if pod else _not_found()
        if words[-1] == "eviction":
            return self._evict(words[-2], json.loads(body))
        if path.startswith(LEASES):
            return self._lease(method, words[-1], body)
        assert words[-1] == "events"
        event = json.loads(body)
        assert event["metadata"]["namespace"] == words[-2]
        self.events.append(event)
        return 201, body

    def _list(self, query: Mapping[str, str]) -> Answer:
        asked = dict(one.split("=") for one in query["labelSelector"].split(","))
        found = [
            one for one in self.pods.values() if asked.items() <= one["metadata"]["labels"].items()
        ]
        at, size = int(query.get("continue", "0")), int(query["limit"])
        rest = str(at + size) if at + size < len(found) else ""
        page = {"kind": "PodList", "metadata": {"continue": rest}, "items": found[at : at + size]}
        return 200, json.dumps(page).encode()

    def _evict(self, name: str, eviction: Json) -> Answer:
        pod = self.pods.get(name)
        if pod is None:
            return _not_found()
        options = eviction["deleteOptions"]
        if options["preconditions"]["uid"] != pod["metadata"]["uid"]:
            return 409, status(409, "Conflict")
        if "deletionTimestamp" not in pod["metadata"]:
            if self.budget == 0:
                return 429, status(429, "TooManyRequests", "DisruptionBudget")
            if self.budget is not None:
                self.budget -= 1
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.evicted.append(pod["metadata"]["uid"])
            self.grace.append(options["gracePeriodSeconds"])
        return 201, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success"}).encode()

    def _lease(self, method: str, name: str, body: bytes) -> Answer:
        given: Any = json.loads(body) if body else {}
        if method == "POST":
            name = given["metadata"]["name"]
            if name in self.leases:
                return 409, status(409, "AlreadyExists")
            version = "1"
        else:
            known = self.leases.get(name)
            if known is None:
                return _not_found()
            if method == "GET":
                return 200, json.dumps(known).encode()
            version = known["metadata"]["resourceVersion"]
            if given["metadata"]["resourceVersion"] != version:
                return 409, status(409, "Conflict")
            version = str(int(version) + 1)
        given["metadata"]["resourceVersion"] = version
        self.leases[name] = given
        return (201 if method == "POST" else 200), json.dumps(given).encode()


def _not_found() -> Answer:
    return 404, status(404, "NotFound")
