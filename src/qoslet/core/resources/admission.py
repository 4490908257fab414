"""Which pods a node rejects whatever runs on it: they get no cgroup and count in no sum.

Source: kubelet lifecycle/predicate.go (``PodOSNotSupported``, ``NodeAffinity``), kubelet.go canAdmitPod: a rejected
pod is Failed, and qos_container_manager_linux.go sums active pods only. What the CPU, memory and
topology managers reject is theirs to say (``core.managers``).
"""

from __future__ import annotations

from qoslet.core.api.pod import Pod, System


def misfit(pod: Pod, system: System) -> tuple[str, System] | None:
    """The field that keeps a pod off nodes of this operating system, and what it asks for; None
    where there is none. A pod that names no system fits on each."""
    claims = pod.platform.claims
    if not claims:
        if pod.os != "windows":
            return None
        claims = (("spec.os.name", "windows"),)
    return next((claim for claim in claims if claim[1] != system), None)


def supports_os(pod: Pod, system: System) -> bool:
    """Whether a node of this operating system admits a pod."""
    return misfit(pod, system) is None
