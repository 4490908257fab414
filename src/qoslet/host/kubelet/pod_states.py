"""Whether a kubelet resized a pod in place or assigned CPUs, or a pod ended, a short while ago.

It writes what it allocated and actuated to files in its root directory. Source: kubelet
status_manager.go and allocation/allocation_manager.go (``*_pods_state``), since 1.27;
cm/cpumanager/cpu_manager.go reconcileState.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from qoslet.core.managers.state_files import CPU_STATE
from qoslet.core.node.command_line.parse import CommandLine
from qoslet.core.node.running_kubelet.listed_pods import ListedPod
from qoslet.host.kubelet.processes import KubeletProcess

RECENT_SECONDS = 75.0
"""QoS cgroups are updated each minute, not with a resize. Source: periodicQOSCgroupUpdateInterval."""
ASSIGNED_SECONDS = 20.0
"""The CPU manager sends containers their CPUs each cpuManagerReconcilePeriod, 10 s, one after the other."""
_NEAR_SECONDS = 3.0
_ROOT = "/var/lib/kubelet"
_FILES = ("actuated_pods_state", "allocated_pods_state", "pod_status_manager_state")


def was_resized(process: KubeletProcess, command: CommandLine, pods: Sequence[ListedPod]) -> bool:
    """Whether the states of pods were written within ``RECENT_SECONDS``, other than for a container
    that started then: a pod's start updates QoS cgroups itself. A pod whose spec was changed may be
    resized at the same time. False where that cannot be seen."""
    folder = f"{process.folder}/root{root_directory(command)}"
    written = max((_written(f"{folder}/{name}") for name in _FILES), default=0.0)
    if not 0.0 <= time.time() - written < RECENT_SECONDS:
        return False
    if any(one.was_changed for one in pods):
        return True
    return all(abs(written - at) > _NEAR_SECONDS for at in _starts(pods))


def has_ended(pods: Iterable[ListedPod]) -> bool:
    """Whether a pod that its kubelet still names ended within ``RECENT_SECONDS``. A pod's end does not
    update QoS cgroups. Source: kubelet.go SyncTerminatedPod."""
    now = time.time()
    ends = _ends(one for one in pods if one.has_ended)
    return any(0.0 <= now - at < RECENT_SECONDS for at in ends)


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


def _starts(pods: Iterable[ListedPod]) -> list[float]:
    """When the containers of pods started, in seconds since the epoch."""
    rows = [one.state.running for pod in pods for one in pod.containers()]
    return [one.started_at.timestamp() for one in rows if one is not None and one.started_at]


def _ends(pods: Iterable[ListedPod]) -> list[float]:
    """When the containers of pods ended, in seconds since the epoch."""
    rows = [one.state.terminated for pod in pods for one in pod.containers()]
    return [one.finished_at.timestamp() for one in rows if one is not None and one.finished_at]
