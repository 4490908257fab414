"""Container IDs of a runtime for pods whose statuses lack them, and pods of manifests by their
sandboxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from qoslet.core.node.command_line.parse import Document
from qoslet.core.node.running_kubelet.listed_pods import ListedPod

_STATUSES = (
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


_Known = tuple[str, bool]
"""The ID of a container as statuses have it, and whether it runs."""


class RuntimeSandbox(Struct, frozen=True):
    """A sandbox with the UID, namespace and name of its pod. That of a pod that ended is not ready
    until the kubelet removes it, a minute later. ``created_at`` in seconds since the epoch."""

    id: str
    uid: str
    namespace: str
    name: str
    is_ready: bool = True
    created_at: float = 0.0


class RuntimeContainer(Struct, frozen=True):
    """A container of a pod, by the pod's UID and its own name. ``created``: it has not run yet."""

    id: str
    uid: str
    name: str
    running: bool
    created: bool = False


def restarting(pods: Iterable[ListedPod], containers: Iterable[RuntimeContainer]) -> frozenset[str]:
    """UIDs of the ``pods`` whose statuses say that a container runs which the runtime no longer runs,
    or do not name one that it runs, or is about to run: their kubelet starts it again."""
    running: dict[str, set[str]] = {}
    for one in containers:
        if one.running or one.created:
            running.setdefault(one.uid, set()).add(one.id)
    every = set[str]().union(*running.values())
    return frozenset(pod.uid for pod in pods if not _agree(pod, running.get(pod.uid, set()), every))


def _agree(pod: ListedPod, running: set[str], every: set[str]) -> bool:
    """Whether a status names the containers of its pod that run, and says of none that it does but of
    those of ``every`` pod."""
    named = {one.id.rpartition("/")[2]: one.state for one in pod.containers() if one.id}
    told = {id for id, state in named.items() if state.running is not None}
    return told <= every and running <= named.keys()


def with_container_ids(
    pods: Sequence[Any], containers: Iterable[RuntimeContainer], runtime: str
) -> tuple[list[Any], int]:
    """``pods`` (objects of the API) with the IDs that the ``runtime`` has for containers without
    one, and how many were filled in. Of the containers of a name the first that runs counts; without
    one the first, where no status names it at all: as a manifest says nothing of what has ended."""
    known: dict[tuple[str, str], _Known] = {}
    for one in containers:
        key, found = (one.uid, one.name), (f"{runtime}://{one.id}", one.running)
        if key not in known or (one.running and not known[key][1]):
            known[key] = found
    count = 0
    result = []
    for pod in pods:
        uid = _of(_of(pod, "metadata"), "uid")
        filled = pod
        for spec, status in _STATUSES:
            filled, more = _filled(filled, spec, status, str(uid), known)
            count += more
        result.append(filled)
    return result, count


def _filled(
    pod: Any, spec: str, status: str, uid: str, known: Mapping[tuple[str, str], _Known]
) -> tuple[Any, int]:
    """The pod with the statuses of one list of containers filled in."""
    declared = _of(_of(pod, "spec"), spec)
    names = [_of(one, "name") for one in declared] if isinstance(declared, list) else []
    given = _of(_of(pod, "status"), status)
    rows = list(given) if isinstance(given, list) else []
    named = {_of(row, "name") for row in rows}
    have = {_of(row, "name") for row in rows if _of(row, "containerID")}
    lacking = {
        name: known[uid, name]
        for name in names
        if isinstance(name, str) and (uid, name) in known and name not in have
        if known[uid, name][1] or name not in named
    }
    if not lacking:
        return pod, 0
    rows = [row for row in rows if _of(row, "name") not in lacking]
    rows += [
        {"name": name, "containerID": id, "state": {"running" if runs else "terminated": {}}}
        for name, (id, runs) in lacking.items()
    ]
    before = _of(pod, "status")
    return {**pod, "status": {**(before or {}), status: rows}}, len(lacking)


def _of(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def static_pods(
    manifests: Sequence[Any], sandboxes: Sequence[RuntimeSandbox], node: str
) -> tuple[list[Document], list[RuntimeSandbox]]:
    """The pods of static manifests as their kubelet runs them: named after the ``node``, with the
    UID of their sandbox; and the sandboxes of pods that no manifest is of."""
    running = {(one.namespace, one.name): one for one in reversed(sandboxes)}
    pods: list[Document] = []
    for manifest in manifests:
        metadata, (namespace, name) = _of(manifest, "metadata") or {}, static_name(manifest, node)
        sandbox = running.pop((namespace, name), None)
        if sandbox is None:
            continue
        own = {"name": sandbox.name, "namespace": namespace, "uid": sandbox.uid}
        spec = {**(_of(manifest, "spec") or {}), "nodeName": node}
        pods.append({**manifest, "metadata": {**metadata, **own}, "spec": spec})
    return pods, list(running.values())


def static_name(manifest: Any, node: str) -> tuple[str, str]:
    """Namespace and name of the pod that a kubelet on ``node`` runs from a static manifest.

    Source: kubelet config/common.go applyDefaults, generatePodName.
    """
    metadata = _of(manifest, "metadata")
    return _of(metadata, "namespace") or "default", f"{_of(metadata, 'name')}-{node.lower()}"
