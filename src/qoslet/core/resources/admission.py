"""Which pods a node rejects whatever runs on it: they get no cgroup and count in no sum.

Source: kubelet lifecycle/predicate.go (``PodOSNotSupported``), kubelet.go canAdmitPod: a rejected
pod is Failed, and qos_container_manager_linux.go sums active pods only. What the CPU, memory and
topology managers reject is theirs to say (``core.managers``).
"""

from __future__ import annotations

from typing import Literal

from qoslet.core.api.pod import Pod


def supports_os(pod: Pod, system: Literal["linux", "windows"]) -> bool:
    """Whether a node of this operating system admits a pod of its own one. A pod that names none
    is a Linux pod, which a Windows node does not reject."""
    return pod.os == "linux" or system == "windows"
