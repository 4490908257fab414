"""The container runtime of a kubelet that was found: its version for the plan, and its containers for
pods whose statuses lack their IDs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from qoslet.core.api.schema import DECODE_ERRORS
from qoslet.core.cgroup.names import USE_SYSTEMD
from qoslet.core.node.command_line.parse import Document
from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.core.node.running_kubelet.containers import (
    RuntimeContainer,
    RuntimeSandbox,
    restarting,
    static_name,
    static_pods,
    with_container_ids,
)
from qoslet.core.node.running_kubelet.listed_pods import ListedPod
from qoslet.errors import BadInput, CannotDo
from qoslet.host.kubelet.process_files import ProcessFiles
from qoslet.host.kubelet.processes import KubeletProcess, has_exited, shares_namespace
from qoslet.host.machine.installed import is_installed

if TYPE_CHECKING:
    from qoslet.host.cri.runtime_info import RuntimeFacts

_TOPIC = "kubelet runtime"
_DEFAULT = "unix:///run/containerd/containerd.sock"
_SCHEME = "unix://"


class KubeletRuntime(Struct, frozen=True):
    """What its runtime says: ``name`` as plans take it (``containerd-2.2.0+runc-1.3.3``), empty where
    it is not known; ``driver`` only where RuntimeConfig tells it."""

    note: DoctorFinding
    endpoint: str = ""
    name: str = ""
    scheme: str = ""
    driver: str = ""
    sandboxes: tuple[RuntimeSandbox, ...] = ()
    """Those that are ready."""
    uids: frozenset[str] = frozenset()
    """Of the pods of all sandboxes."""
    is_asked: bool = False
    """Whether it has answered."""
    containers: tuple[RuntimeContainer, ...] = ()


def runtime_socket(process: KubeletProcess, fields: Mapping[str, Any]) -> tuple[str, str]:
    """The endpoint of a kubelet's runtime by its configuration, and the path of the socket as this
    process sees it, empty where it is none."""
    named = fields.get("containerRuntimeEndpoint")
    endpoint = named if isinstance(named, str) and named else _DEFAULT
    path = endpoint.removeprefix(_SCHEME)
    if not path.startswith("/"):
        return endpoint, ""
    is_elsewhere = shares_namespace(process, "mnt") is False
    return endpoint, f"{process.folder}/root{path}" if is_elsewhere else path


def kubelet_runtime(process: KubeletProcess, fields: Mapping[str, Any]) -> KubeletRuntime:
    """Ask the runtime that the kubelet's configuration names."""
    endpoint, path = runtime_socket(process, fields)
    remedy = "give --runtime"
    if not (is_installed("grpc") and is_installed("google.protobuf")):
        lacks = "grpcio and protobuf are not installed"
        return KubeletRuntime(
            DoctorFinding(_TOPIC, "unknown", lacks, "", f"pip install 'qoslet[cri]', or {remedy}")
        )
    if not path:
        value = f"{endpoint} is not a unix socket"
        return KubeletRuntime(DoctorFinding(_TOPIC, "unknown", value, "", remedy))
    if not os.path.exists(path):
        return KubeletRuntime(
            DoctorFinding(_TOPIC, "unknown", f"{endpoint} is not there", "", remedy)
        )
    from qoslet.host.kubelet.cri_containers import look

    try:
        facts, boxes, found = look(f"{_SCHEME}{path}")
    except CannotDo as error:
        value = f"{endpoint}: {error.message}"
        return KubeletRuntime(DoctorFinding(_TOPIC, "unknown", value, "", remedy))
    return KubeletRuntime(
        note=_said(facts, endpoint, uses_systemd=fields.get("cgroupDriver") == "systemd"),
        endpoint=endpoint,
        name=facts.runtime if _is_known(facts.runtime) else "",
        scheme=facts.name,
        driver=(facts.driver or "") if facts.told == "RuntimeConfig" else "",
        sandboxes=tuple(one for one in boxes if one.is_ready),
        uids=frozenset(one.uid for one in boxes),
        is_asked=True,
        containers=tuple(found),
    )


def _said(facts: RuntimeFacts, endpoint: str, *, uses_systemd: bool) -> DoctorFinding:
    """``uses_systemd``: the kubelet does. Since 1.31 it does as RuntimeConfig says."""
    if uses_systemd and facts.driver == "cgroupfs" and facts.told != "RuntimeConfig":
        value = f"{facts.runtime} at {endpoint} does not use systemd, which the kubelet does"
        cost = "containers are outside of their pods, without the limits of those"
        return DoctorFinding(_TOPIC, "missing", value, cost, USE_SYSTEMD)
    if _is_known(facts.runtime):
        return DoctorFinding(_TOPIC, "ok", f"{facts.runtime} at {endpoint}")
    value = f"{facts.runtime} at {endpoint} is not a known version"
    return DoctorFinding(
        _TOPIC, "unknown", value, "", "give --runtime with one that writes the same"
    )


def _is_known(name: str) -> bool:
    from qoslet.core.versions.runtime import runtime_of

    try:
        runtime_of(name)
    except ValueError:
        return False
    return True


def completed(pods: bytes, runtime: KubeletRuntime) -> bytes:
    """A PodList with the IDs that its statuses lack."""
    if not runtime.containers:
        return pods
    try:
        document = msgspec.json.decode(pods)
    except DECODE_ERRORS:
        return pods
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        return pods
    filled, count = with_container_ids(items, runtime.containers, runtime.scheme)
    return msgspec.json.encode({**document, "items": filled}) if count else pods


def sandboxed_pods(
    runtime: KubeletRuntime, pods: Sequence[ListedPod], age: float | None
) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """UIDs of the pods that have a ready sandbox with all containers that run by the statuses in ``pods``, and
    of those whose sandbox is older than a kubelet of this ``age``; None where that is not known."""
    if not runtime.is_asked:
        return None, None
    older = None
    if age is not None:
        begun = time.time() - age
        older = frozenset(one.uid for one in runtime.sandboxes if one.created_at < begun)
    ready = frozenset(one.uid for one in runtime.sandboxes)
    return ready - restarting(pods, runtime.containers), older


def pods_of_manifests(
    process: KubeletProcess, fields: Mapping[str, Any], runtime: KubeletRuntime, node: str
) -> tuple[str, bytes] | None:
    """The kubelet's pods as its static manifests and the runtime's sandboxes tell them, with the place
    of the manifests; None unless every pod that runs has one. Raises CannotDo where the kubelet has
    ended meanwhile, as its files are gone then."""
    found = static_pod_list(process, fields, runtime, node)
    if found is None and has_exited(process):
        message = f"the kubelet (process {process.pid}) ended while it was asked"
        raise CannotDo(message, hint="ask again when it runs")
    return None if found is None or found[2] else found[:2]


def static_pod_list(
    process: KubeletProcess, fields: Mapping[str, Any], runtime: KubeletRuntime, node: str
) -> tuple[str, bytes, int] | None:
    """The pods that run and have a static manifest, the place of the manifests, and how many run
    without one; None where there are no manifests or nothing runs."""
    read = _static_manifests(process, fields) if runtime.sandboxes else None
    if read is None:
        return None
    path, manifests = read
    pods, others = static_pods(manifests, runtime.sandboxes, node)
    listed = msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "items": pods})
    return path, completed(listed, runtime), len(others)


def static_pod_names(
    process: KubeletProcess, fields: Mapping[str, Any], node: str
) -> frozenset[tuple[str, str]]:
    """Namespace and name of the pods that the kubelet runs from static manifests; none where they
    cannot be read."""
    read = _static_manifests(process, fields)
    return frozenset(static_name(one, node) for one in (read[1] if read is not None else ()))


def _static_manifests(
    process: KubeletProcess, fields: Mapping[str, Any]
) -> tuple[str, list[Document]] | None:
    """The directory of static manifests and the pods in it; None where there is none that can be
    read."""
    path = fields.get("staticPodPath")
    if not isinstance(path, str) or not path:
        return None
    try:
        with ProcessFiles(process.folder) as files:
            path = files.absolute(path)
            return path, list(_manifests(files, path))
    except (OSError, BadInput, *DECODE_ERRORS):
        return None


def _manifests(files: ProcessFiles, path: str) -> list[Any]:
    """The pods of a directory of manifests, those below it and hidden ones not. Raises OSError,
    BadInput and what decoding raises."""
    from qoslet.host.files.bounds import FOLLOWED
    from qoslet.host.files.manifests import text_documents

    found = []
    for name in files.walk(path):
        inner = name[len(path.rstrip("/")) + 1 :]
        if "/" in inner or inner.startswith("."):
            continue
        for document in text_documents(files.read(name), name, FOLLOWED):
            if isinstance(document, BadInput):
                raise document
            found.append(msgspec.json.decode(document.data))
    return [one for one in found if isinstance(one, dict) and one.get("kind") == "Pod"]
