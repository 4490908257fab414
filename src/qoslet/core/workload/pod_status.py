"""Where each pod is in its life, and why: what the loop tells of every pod it has to do with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from qoslet.core.api.pod import Role
from qoslet.core.reconcile.resize import ResizeState
from qoslet.core.workload.container_state import ContainerState

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Terminating"]
"""As core/v1 PodPhase, and ``Terminating`` where a pod is on its way out."""


_WIRE_NAMES = {
    "spec_digest": "digest",
    "grace_seconds": "grace",
    "container_cgroups": "cgroups",
    "allocation": "memo",
    "terminating": "ending",
    "top_cgroups": "tops",
}
"""The names that agents and keepers of all versions send."""


class RuntimePod(Struct, frozen=True, rename=_WIRE_NAMES):
    """A pod that a runtime keeps, started under this agent or an earlier one.

    ``spec_digest`` is that of the ``PodSpec`` it was started with, ``allocation`` the resources
    that it was given last, as text. ``container_cgroups`` are paths by container name;
    ``top_cgroups`` the pod's topmost ones where the runtime creates its containers' cgroups, else
    empty. ``ended``: no container runs, and none will be started. ``terminating``: it was asked to
    stop, by this agent or an earlier one. ``manifest`` is the file that it was started or changed
    by last, ``roles`` what its containers are; both are empty where an earlier version did not
    record them. ``created`` is when it was started first, in wall-clock seconds; 0 where that is not
    known.
    """

    uid: str
    key: str
    spec_digest: str
    grace_seconds: float
    container_cgroups: Mapping[str, str]
    ended: bool = False
    allocation: str = ""
    terminating: bool = False
    top_cgroups: tuple[str, ...] = ()
    manifest: str = ""
    roles: Mapping[str, Role] = {}
    created: float = 0.0


class PodUsage(Struct, frozen=True, gc=False):
    """What a pod or container uses: ``cpu`` in cores over the last ``seconds``, ``memory`` in bytes,
    ``throttled`` seconds that its CPU quota held it back so far. Limits are those that the kernel
    has; a share is that of the limit that is nearest, of a pod's own and its containers'. None:
    not known, or no limit."""

    seconds: float | None = None
    cpu: float | None = None
    cpu_limit: float | None = None
    cpu_share: float | None = None
    throttled: float | None = None
    memory: int | None = None
    memory_limit: int | None = None
    memory_share: float | None = None


class PodRow(Struct, frozen=True):
    """One pod. ``reason`` is a word for machines (``StartError``), ``message`` a sentence for
    people; both are empty where there is nothing to say. ``since`` is the wall-clock time in
    seconds at which the phase or the reason began. ``retries`` counts the attempts that failed
    in a row, ``retry_in`` is in seconds. ``manifest`` is the file that the pod comes from.
    ``status`` is the word that kubectl prints (a reason of its own before those of containers), ``created`` since when there is the pod, in
    wall-clock seconds. ``edit_rejected`` tells why the manifest as it is now does not count;
    ``roles`` are those of containers by name, ``usage`` is by container, that of the pod under the
    empty name, ``restart_policy`` that of the regular containers, empty where the pod is no longer
    desired; ``controller`` is kind and name of what made it, where that is known."""

    uid: str
    namespace: str
    name: str
    qos: str
    phase: PodPhase
    reason: str = ""
    message: str = ""
    since: float = 0.0
    retries: int = 0
    retry_in: float | None = None
    resize: ResizeState = ""
    resize_reason: str = ""
    manifest: str = ""
    containers: tuple[ContainerState, ...] = ()
    status: str = ""
    created: float = 0.0
    edit_rejected: str = ""
    roles: Mapping[str, str] = {}
    usage: Mapping[str, PodUsage] = {}
    restart_policy: str = ""
    controller: tuple[str, str] | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"
