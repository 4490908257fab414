"""The eviction of one pod: what to ask the API server next, and what follows from its answers.

No input, no output and no clock: whoever drives it sends the requests and waits. Every request may
be lost, and the process may end anywhere: an Eviction names the UID, so that no other pod is ever
evicted, and each attempt begins with a look whether the pod is being deleted already. What answers
may be a proxy: a success counts with the object that it is about, a 404 with its reason.

Source: Kubernetes "API-initiated eviction" (200, 429, 500).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal

from msgspec import Struct

from qoslet.core.node.cluster.eviction_messages import (
    ApiPod,
    EvictionRequest,
    event_body,
    eviction_body,
    lease_body,
    lease_of,
    pod_of,
    pods_of,
)
from qoslet.core.node.cluster.eviction_rules import (
    Others,
    PodWorkload,
    not_evictable,
    selector_of,
    workload_of,
)
from qoslet.core.node.cluster.messages import Malformed, kind_of, refusal, status_of

DEADLINE_SECONDS = 30.0
"""How long an eviction is tried."""
MOST_GRACE_SECONDS = 30
"""A pod gets its own grace period, at most this one: it stands still."""
FORBIDDEN_TRIES = 3
"""How many attempts may be forbidden in a row: an API server that has just started knows no roles."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 8.0
PAGE_SIZE, MOST_PAGES = 100, 20
_RETRIED = (401, 409, 429)
"""Of 4xx: a token is renewed in its file, and is not known to a server that has just started."""


class Call(Struct, frozen=True):
    """A request to send."""

    method: Literal["GET", "POST", "PUT"]
    path: str
    body: bytes = b""
    query: tuple[tuple[str, str], ...] = ()


class Pause(Struct, frozen=True):
    """Wait so long."""

    seconds: float


class Reply(Struct, frozen=True):
    """What came: ``code`` 0 where nothing did, with the reason in ``fault``. ``left``: seconds until
    the deadline; ``wall``: seconds since the epoch, by the clock that all agents go by."""

    code: int
    body: bytes = b""
    retry_seconds: float = 0.0
    fault: str = ""
    left: float = DEADLINE_SECONDS
    wall: float = 0.0


class EvictionOutcome(Struct, frozen=True):
    """``evicted``: the server ends the pod, where ``why`` is empty because of this; ``gone``: it was no more; ``refused``: it stays, and
    ``why``. ``notes`` is what went wrong besides."""

    result: Literal["evicted", "gone", "refused"]
    why: str
    notes: tuple[str, ...] = ()
    grace_seconds: float = MOST_GRACE_SECONDS


class _Again(Struct, frozen=True):
    """It may go well later."""

    why: str
    seconds: float = 0.0
    is_forbidden: bool = False


_Step = EvictionOutcome | _Again
_Steps = Generator[Call | Pause, Reply, _Step | None]


class PodEviction:
    """Drive ``course``: send each Call, wait each Pause, and send the Reply back."""

    def __init__(self, ask: EvictionRequest, lease_namespace: str) -> None:
        self._ask = ask
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{lease_namespace}/leases"
        self._lease_namespace = lease_namespace
        self._held: PodWorkload | None = None
        self._is_unknown = False
        """Whether the server may take an eviction yet that it has not answered."""
        self._left, self._wall = DEADLINE_SECONDS, 0.0
        self._grace = MOST_GRACE_SECONDS

    def course(self) -> Generator[Call | Pause, Reply, EvictionOutcome]:
        """The whole eviction."""
        try:
            outcome = yield from self._attempts()
        except Malformed as error:
            outcome = EvictionOutcome("refused", f"the API server is not understood: {error}")
        notes = []
        if outcome.result == "refused" and self._held is not None and not self._is_unknown:
            notes += yield from self._release(self._held)
        if outcome.result != "gone":
            notes += yield from self._tell(outcome)
        return EvictionOutcome(outcome.result, outcome.why, tuple(notes), self._grace)

    def _attempts(self) -> Generator[Call | Pause, Reply, EvictionOutcome]:
        wait, forbidden = FIRST_WAIT_SECONDS, 0
        while True:
            step = yield from self._attempt()
            if isinstance(step, EvictionOutcome):
                return step
            forbidden = forbidden + 1 if step.is_forbidden else 0
            if forbidden == FORBIDDEN_TRIES:
                return EvictionOutcome("refused", step.why)
            seconds = max(wait, step.seconds)
            if self._left <= seconds:
                return EvictionOutcome("refused", step.why)
            reply = yield Pause(seconds)
            self._note(reply)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            if self._left <= 0:
                return EvictionOutcome("refused", step.why)

    def _attempt(self) -> Generator[Call | Pause, Reply, _Step]:
        """Look at the pod, take the Lease, look at the others, evict."""
        pod = yield from self._look()
        if not isinstance(pod, ApiPod):
            return pod
        owner, workload = pod.owner, workload_of(pod)
        why = not_evictable(None if owner is None else owner.kind)
        if why or workload is None:
            return EvictionOutcome("refused", why)
        step = yield from self._take(workload)
        step = step or (yield from self._others(pod, workload))
        return step or (yield from self._evict())

    def _look(self) -> Generator[Call | Pause, Reply, ApiPod | _Step]:
        """The pod as it is now."""
        reply = yield from self._send(Call("GET", self._ask.path))
        if _is_not_found(reply):
            return EvictionOutcome("gone", "the pod is gone")
        if reply.code != 200:
            return _failed(reply, "get pods")
        pod = pod_of(reply.body)
        if pod.metadata.uid != self._ask.uid:
            return EvictionOutcome("gone", "another pod has its name by now")
        if pod.has_ended:
            return EvictionOutcome("gone", "the pod has ended")
        self._grace = max(1, min(pod.spec.grace, MOST_GRACE_SECONDS))
        if pod.is_deleted:
            # without a Lease another process deletes it, or an agent before this one
            why = "" if self._held is not None else "the pod is being deleted"
            return EvictionOutcome("evicted", why)
        return pod

    def _take(self, workload: PodWorkload) -> _Steps:
        """The Lease of a workload; None where it is ours."""
        reply = yield from self._send(Call("GET", f"{self._leases}/{workload.lease}"))
        if _is_not_found(reply):
            call = Call("POST", self._leases, self._lease(workload, self._ask.holder))
        elif reply.code == 200:
            lease = lease_of(reply.body)
            holder, held = lease.spec.holder or "", lease.held_seconds(self._wall)
            if held and holder != self._ask.holder:
                node = holder.partition("/")[0]
                return _Again(f"the agent of {node} has the Lease {workload.lease} of {workload}")
            call = self._put(workload, self._ask.holder, lease.metadata.version)
        else:
            return _failed(reply, "get leases")
        reply = yield from self._send(call)
        if reply.code in (200, 201):
            if lease_of(reply.body).spec.holder != self._ask.holder:
                return _Again(f"the Lease {workload.lease} is not taken")
            self._held = workload
            return None
        if reply.code == 409:
            return _Again(f"another agent takes the Lease {workload.lease}")
        return _failed(reply, "create and update leases")

    def _others(self, pod: ApiPod, workload: PodWorkload) -> _Steps:
        """The other pods of the workload; None where they let this one go."""
        selector = selector_of(pod.labels)
        if not selector:
            return EvictionOutcome("refused", "its labels do not tell the other pods")
        found, token = Others(), ""
        for _ in range(MOST_PAGES):
            query = [("labelSelector", selector), ("limit", str(PAGE_SIZE))]
            query += [("continue", token)] if token else []
            path = self._ask.path.rpartition("/")[0]
            reply = yield from self._send(Call("GET", path, query=tuple(query)))
            if reply.code == 410:
                return _Again("the list of the other pods expired")
            if reply.code != 200:
                return _failed(reply, "list pods")
            page = pods_of(reply.body)
            found = found.and_those(pod, workload, page.items or ())
            token = page.metadata.next
            if not token:
                break
        else:
            return EvictionOutcome("refused", f"{workload} has too many pods to look at")
        why = found.refusal(workload)
        if why and not found.not_ready:
            return EvictionOutcome("refused", why)
        return _Again(why) if why else None

    def _evict(self) -> Generator[Call | Pause, Reply, _Step]:
        """Ask for the eviction."""
        if self._left <= 0:
            return _Again("the API server answers too late")
        body = eviction_body(self._ask, self._grace)
        reply = yield from self._send(Call("POST", f"{self._ask.path}/eviction", body))
        is_api = bool(kind_of(reply.body))
        if reply.code in (200, 201, 202) and is_api:
            return EvictionOutcome("evicted", "")
        self._is_unknown = self._is_unknown or not is_api
        step = _failed(reply, "create pods/eviction")
        if _is_not_found(reply):
            return EvictionOutcome("gone", "the pod is gone")
        if is_api and reply.code in (403, 429):
            return step
        # it may have been taken, or the name may be another pod's: the pod itself tells
        seen = yield from self._look()
        if isinstance(seen, EvictionOutcome):
            return seen
        if is_api and isinstance(step, EvictionOutcome):
            return step
        why = step.why if reply.code else f"no answer to the eviction: {step.why}"
        return _Again(why, step.seconds if isinstance(step, _Again) else 0.0)

    def _release(self, workload: PodWorkload) -> Generator[Call | Pause, Reply, list[str]]:
        """Give the Lease back, so that the next agent need not wait for its end."""
        reply = yield from self._send(Call("GET", f"{self._leases}/{workload.lease}"))
        try:
            lease = lease_of(reply.body) if reply.code == 200 else None
        except Malformed:
            lease = None
        if lease is not None and lease.spec.holder == self._ask.holder:
            reply = yield from self._send(self._put(workload, None, lease.metadata.version))
        if reply.code == 200:
            return []
        return [f"the Lease {workload.lease} was not given back: it expires by itself"]

    def _tell(self, outcome: EvictionOutcome) -> Generator[Call | Pause, Reply, list[str]]:
        """An Event on the pod."""
        about = f"container {self._ask.container} {self._ask.why}"
        if outcome.result == "evicted":
            reason, note = "MemoryStall", f"{outcome.why or 'evicted'}: {about}"
        else:
            reason = "EvictionRefused"
            note = f"{about}, and the pod is not evicted: {outcome.why}; while that goes on, the container is ended as an OOM kill does"
        body = event_body(self._ask, reason, note, self._wall)
        path = f"/apis/events.k8s.io/v1/namespaces/{self._ask.namespace}/events"
        reply = yield from self._send(Call("POST", path, body))
        if reply.code in (200, 201, 409):
            return []
        return [f"no Event: {_failed(reply, 'create events.k8s.io').why}"]

    def _put(self, workload: PodWorkload, holder: str | None, version: str) -> Call:
        body = self._lease(workload, holder, version)
        return Call("PUT", f"{self._leases}/{workload.lease}", body)

    def _lease(self, workload: PodWorkload, holder: str | None, version: str = "") -> bytes:
        where = self._lease_namespace
        return lease_body(workload.lease, where, holder, str(workload), self._wall, version)

    def _send(self, call: Call) -> Generator[Call | Pause, Reply, Reply]:
        reply = yield call
        self._note(reply)
        return reply

    def _note(self, reply: Reply) -> None:
        self._left, self._wall = reply.left, reply.wall


def _is_not_found(reply: Reply) -> bool:
    """Whether the API server itself says that there is no such object."""
    return reply.code == 404 and status_of(404, reply.body).reason == "NotFound"


def _failed(reply: Reply, right: str) -> _Step:
    """What follows from an answer that is no success. ``right``: what RBAC has to grant."""
    if not reply.code:
        return _Again(reply.fault or "the API server does not answer")
    status = status_of(reply.code, reply.body, reply.retry_seconds)
    text = f"the API server {refusal(status)}"
    if reply.code == 403:
        return _Again(f"{text} (grant {right})", is_forbidden=True)
    if reply.code in _RETRIED or reply.code >= 500:
        return _Again(text, status.retry_seconds)
    return EvictionOutcome("refused", text)
