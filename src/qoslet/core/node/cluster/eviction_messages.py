"""What an agent says to an API server to evict a pod, and what it reads of the answers.

Source: policy/v1 ``Eviction``, coordination.k8s.io/v1 ``Lease``, events.k8s.io/v1 ``Event``; meta/v1
``Preconditions``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from qoslet.core.node.cluster.messages import Malformed

LEASE_SECONDS = 120
"""How long a Lease holds the other agents off."""
REPORTER = "qoslet.dev/agent"
_NOTE_BYTES = 1024
_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError)


class EvictionRequest(Struct, frozen=True):
    """A pod that is to be evicted because of a container. ``node``: who asks."""

    namespace: str
    name: str
    uid: str
    container: str
    node: str
    why: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """The pod on the API server."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def holder(self) -> str:
        """The holder of a Lease: after a crash the next agent of the node goes on with the same pod,
        and with no other one."""
        return f"{self.node}/{self.uid}"


class Owner(Struct, frozen=True):
    """An entry of ``ownerReferences``."""

    kind: str = ""
    name: str = ""
    controller: bool = False


class _Metadata(Struct, frozen=True):
    name: str = ""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    owners: list[Owner] | None = msgspec.field(default=None, name="ownerReferences")
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Spec(Struct, frozen=True):
    grace: int = msgspec.field(default=30, name="terminationGracePeriodSeconds")


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""


class _PodStatus(Struct, frozen=True):
    phase: str = ""
    conditions: list[_Condition] | None = None


class ApiPod(Struct, frozen=True):
    """A pod, as far as an eviction needs it."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _PodStatus = _PodStatus()

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.metadata.labels or {}

    @property
    def owner(self) -> Owner | None:
        """Its controller."""
        return next((one for one in self.metadata.owners or () if one.controller), None)

    @property
    def is_deleted(self) -> bool:
        """Whether its end was asked for."""
        return bool(self.metadata.deleted)

    @property
    def has_ended(self) -> bool:
        """Whether its containers have, for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        """Whether it serves, and goes on doing so."""
        ready = any(
            one.type == "Ready" and one.status == "True" for one in self.status.conditions or ()
        )
        return ready and not self.is_deleted


class _ListMetadata(Struct, frozen=True):
    next: str = msgspec.field(default="", name="continue")


class ApiPods(Struct, frozen=True):
    """A page of pods."""

    metadata: _ListMetadata
    items: list[ApiPod] | None = None


class _LeaseMetadata(Struct, frozen=True):
    version: str = msgspec.field(default="", name="resourceVersion")


class _LeaseSpec(Struct, frozen=True):
    holder: str | None = msgspec.field(default=None, name="holderIdentity")
    renewed: str | None = msgspec.field(default=None, name="renewTime")
    seconds: int | None = msgspec.field(default=None, name="leaseDurationSeconds")


class ApiLease(Struct, frozen=True):
    """A Lease."""

    metadata: _LeaseMetadata
    spec: _LeaseSpec = _LeaseSpec()

    def held_seconds(self, wall: float) -> float:
        """How long its holder has it still; 0 where nobody has."""
        if not self.spec.holder or not self.spec.renewed:
            return 0.0
        try:
            at = datetime.fromisoformat(self.spec.renewed).timestamp()
        except ValueError:
            return 0.0
        return max(0.0, at + (self.spec.seconds or LEASE_SECONDS) - wall)


_pod = msgspec.json.Decoder(ApiPod)
_pods = msgspec.json.Decoder(ApiPods)
_lease = msgspec.json.Decoder(ApiLease)


def pod_of(body: bytes) -> ApiPod:
    """A pod. Raises Malformed."""
    try:
        found = _pod.decode(body)
    except _FAULTS as error:
        raise Malformed(f"the answer is not a Pod: {error}") from None
    if not found.metadata.uid:
        raise Malformed("the pod has no UID")
    return found


def pods_of(body: bytes) -> ApiPods:
    """A page of pods. Raises Malformed."""
    try:
        return _pods.decode(body)
    except _FAULTS as error:
        raise Malformed(f"the answer is not a PodList: {error}") from None


def lease_of(body: bytes) -> ApiLease:
    """A Lease. Raises Malformed."""
    try:
        return _lease.decode(body)
    except _FAULTS as error:
        raise Malformed(f"the answer is not a Lease: {error}") from None


def eviction_body(ask: EvictionRequest, grace: int) -> bytes:
    """The Eviction of just this pod: of another one under its name the server refuses it."""
    options = {"preconditions": {"uid": ask.uid}, "gracePeriodSeconds": grace}
    return msgspec.json.encode(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": ask.name, "namespace": ask.namespace},
            "deleteOptions": options,
        }
    )


def lease_body(
    name: str, namespace: str, holder: str | None, workload: str, wall: float, version: str = ""
) -> bytes:
    """A Lease; ``version`` is that of the one that it replaces, ``holder`` None gives it back."""
    metadata = {"name": name, "namespace": namespace}
    if version:
        metadata["resourceVersion"] = version
    at = micro_time(wall)
    spec = {"holderIdentity": holder, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": at}
    if holder is not None:
        spec["acquireTime"] = at
    return msgspec.json.encode(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                **metadata,
                "labels": {"app.kubernetes.io/name": "qoslet"},
                "annotations": {"qoslet.dev/workload": workload},
            },
            "spec": spec,
        }
    )


def event_body(ask: EvictionRequest, reason: str, note: str, wall: float) -> bytes:
    """An Event on the pod."""
    at = micro_time(wall)
    digest = hashlib.sha256(f"{ask.uid} {reason} {at}".encode()).hexdigest()[:16]
    text = note.encode()[:_NOTE_BYTES].decode(errors="ignore")
    return msgspec.json.encode(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{ask.name[:200].rstrip('.-')}.{digest}",
                "namespace": ask.namespace,
            },
            "eventTime": at,
            "reportingController": REPORTER,
            "reportingInstance": ask.node[:128],
            "action": "Evict",
            "reason": reason,
            "type": "Warning",
            "note": text,
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": ask.namespace,
                "name": ask.name,
                "uid": ask.uid,
            },
        }
    )


def micro_time(wall: float) -> str:
    """meta/v1 MicroTime of wall-clock seconds."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
