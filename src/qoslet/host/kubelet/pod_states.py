"""Whether a kubelet resized a pod in place or assigned CPUs, or a pod ended, a short while ago.

It writes what it allocated and actuated to files in its root directory. Source: kubelet
status_manager.go and allocation/allocation_manager.go (``*_pods_state``), since 1.27;
cm/cpumanager/cpu_manager.go reconcileState.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from qoslet.core.managers.state_files import CPU_STATE
from qoslet.core.node.command_line.parse import CommandLine
from qoslet.host.kubelet.processes import KubeletProcess

RECENT_SECONDS = 75.0
"""QoS cgroups are updated each minute, not with a resize. Source: periodicQOSCgroupUpdateInterval."""
ASSIGNED_SECONDS = 20.0
"""The CPU manager sends containers their CPUs each cpuManagerReconcilePeriod, 10 s, one after the other."""
_NEAR_SECONDS = 3.0
_ROOT = "/var/lib/kubelet"
_FILES = ("actuated_pods_state", "allocated_pods_state", "pod_status_manager_state")


class _Running(Struct, rename="camel"):
    started_at: datetime | None = None


class _Exit(Struct, rename="camel"):
    finished_at: datetime | None = None


class _State(Struct):
    running: _Running | None = None
    terminated: _Exit | None = None


class _Container(Struct):
    state: _State | None = None


class _Status(Struct, rename="camel"):
    phase: Any = None
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None


class _Metadata(Struct):
    generation: Any = None


class _Pod(Struct):
    metadata: _Metadata | None = None
    status: _Status | None = None


class _PodList(Struct):
    items: list[_Pod] | None = None


def was_resized(process: KubeletProcess, command: CommandLine, pods: bytes) -> bool:
    """Whether the states of pods were written within ``RECENT_SECONDS``, other than for a container
    that started then: a pod's start updates QoS cgroups itself. A pod whose spec was changed may be
    resized at the same time. False where that cannot be seen."""
    folder = f"{process.folder}/root{root_directory(command)}"
    written = max((_written(f"{folder}/{name}") for name in _FILES), default=0.0)
    if not 0.0 <= time.time() - written < RECENT_SECONDS:
        return False
    listed = _listed(pods)
    if any(_was_changed(one) for one in listed):
        return True
    return all(abs(written - at) > _NEAR_SECONDS for at in _starts(listed))


def has_ended(pods: bytes) -> bool:
    """Whether a pod that its kubelet still names ended within ``RECENT_SECONDS``. A pod's end does not
    update QoS cgroups. Source: kubelet.go SyncTerminatedPod."""
    ended = [
        one
        for one in _listed(pods)
        if one.status is not None and one.status.phase in ("Succeeded", "Failed")
    ]
    now = time.time()
    return any(0.0 <= now - at < RECENT_SECONDS for at in _ends(ended))


def root_directory(command: CommandLine) -> str:
    """The directory in which a kubelet keeps what it knows."""
    return command.path("root-dir", _ROOT)


def was_assigned(process: KubeletProcess, command: CommandLine) -> bool:
    """Whether the CPU manager wrote its assignments within ``ASSIGNED_SECONDS``. False where that cannot
    be seen."""
    written = _written(f"{process.folder}/root{root_directory(command)}/{CPU_STATE}")
    return 0.0 <= time.time() - written < ASSIGNED_SECONDS


def _written(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _listed(pods: bytes) -> list[_Pod]:
    """The pods; none where they cannot be read."""
    try:
        return msgspec.json.decode(pods, type=_PodList).items or []
    except msgspec.ValidationError:
        return []


def _was_changed(pod: _Pod) -> bool:
    """Whether its spec was, since it was created."""
    generation = None if pod.metadata is None else pod.metadata.generation
    return isinstance(generation, int) and generation > 1


def _states(pods: list[_Pod]) -> list[_State]:
    """What the containers of pods do."""
    return [
        one.state
        for pod in pods
        if pod.status is not None
        for some in (pod.status.container_statuses, pod.status.init_container_statuses)
        for one in some or ()
        if one.state is not None
    ]


def _starts(pods: list[_Pod]) -> list[float]:
    """When the containers of pods started, in seconds since the epoch."""
    rows = [one.running for one in _states(pods)]
    return [one.started_at.timestamp() for one in rows if one is not None and one.started_at]


def _ends(pods: list[_Pod]) -> list[float]:
    """When the containers of pods ended, in seconds since the epoch."""
    rows = [one.terminated for one in _states(pods)]
    return [one.finished_at.timestamp() for one in rows if one is not None and one.finished_at]
