"""Where each pod is in its life, and why: what the loop tells of every pod it has to do with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from qoslet.core.reconcile.resize import ResizeState
from qoslet.core.workload.lifecycle import ContainerState

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Terminating"]
"""As core/v1 PodPhase, and ``Terminating`` where a pod is on its way out."""


class RuntimePod(Struct, frozen=True):
    """A pod that a runtime keeps, begun under this agent or an earlier one. ``digest`` is that
    of the ``PodSpec`` it was started with, ``grace`` seconds, ``cgroups`` the path of each
    container's group by its name. ``ended``: no container runs, and none will be started.
    ``memo`` is that of the ``PodSpec`` it was told last. ``ending``: it was asked to end, by this
    agent or an earlier one. ``tops`` are the pod's topmost groups where its containers' groups are
    the runtime's own business, empty where ``cgroups`` tells them."""

    uid: str
    key: str
    digest: str
    grace: float
    cgroups: Mapping[str, str]
    ended: bool = False
    memo: str = ""
    ending: bool = False
    tops: tuple[str, ...] = ()


class PodRow(Struct, frozen=True):
    """One pod. ``reason`` is a word for machines (``StartError``), ``message`` a sentence for
    people; both are empty where there is nothing to say. ``since`` is the wall-clock time in
    seconds at which the phase or the reason began. ``retries`` counts the attempts that failed
    in a row, ``retry_in`` is in seconds. ``manifest`` is the file that the pod comes from."""

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

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"
