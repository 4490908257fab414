"""Process limits of pods, reservations and the node."""

from __future__ import annotations

from qoslet.core.rules.catalog import rule


@rule("pids.pod", "kubelet pod_container_manager_linux.go; KubeletConfiguration podPidsLimit")
def _pod(limit: int) -> str:
    return f"podPidsLimit {limit}"


@rule("pids.node", "kubelet node_container_manager_linux.go getCgroupConfig (since 1.15)")
def _node(amount: int, capacity: int, reserved: int) -> str:
    return f"pid capacity {capacity} - reserved {reserved} = {amount}"


@rule("pids.reserved", "kubelet node_container_manager_linux.go enforceExistingCgroup")
def _reserved(what: str, amount: int) -> str:
    return f"{what} pid {amount}"
