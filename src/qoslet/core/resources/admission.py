"""Which pods a node rejects whatever runs on it: they get no cgroup and count in no sum.

Source: kubelet lifecycle/predicate.go (``PodOSNotSupported``), kubelet.go canAdmitPod: a rejected
pod is Failed, and qos_container_manager_linux.go sums active pods only. What the CPU, memory and
topology managers reject is theirs to say (``core.managers``).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.api.pod import Pod


class Rejection(Struct, frozen=True):
    """Why a pod is not admitted: a word as the kubelet has it, and a sentence."""

    reason: str
    message: str


def rejection(pod: Pod, system: Literal["linux", "windows"]) -> Rejection | None:
    """Why a node of this operating system rejects a pod, None where it does not."""
    if pod.os == system:
        return None
    return Rejection("PodOSNotSupported", f"a {pod.os} pod on a {system} node")
