"""Swap of containers (KEP-2400), from the first alpha to LimitedSwap."""

from __future__ import annotations

from qoslet.core.rules.catalog import rule

KURT = "kubelet pkg/kubelet/kuberuntime/kuberuntime_container_linux.go"


def limited_swap(request: int, memory_capacity: int, swap_capacity: int) -> int | None:
    """Bytes of swap for a memory request under LimitedSwap; None where the request exceeds the
    node's memory (the kubelet logs and falls back to NoSwap). Source: calcSwapForBurstablePods."""
    if request > memory_capacity or memory_capacity <= 0:
        return None
    return int(float(request) / float(memory_capacity) * float(swap_capacity))


@rule("swap.none", f"KEP-2400; {KURT} swapConfigurationHelper.ConfigureNoSwap")
def _none(why: str) -> str:
    return f"no swap: {why}"


@rule("swap.limited", f"KEP-2400; {KURT} calcSwapForBurstablePods")
def _limited(request: int, memory: int, swap: int, amount: int) -> str:
    return f"memory request {request} / node memory {memory} x node swap {swap} = {amount}"


@rule("swap.legacy", f"{KURT} (1.22-1.27): memory+swap in one number")
def _legacy(behavior: str, amount: int) -> str:
    return f"{behavior}: memory+swap {'unlimited' if amount == -1 else amount}"


@rule("swap.equal", "containerd and CRI-O: OCI swap = memory limit if the kubelet sends none")
def _equal(limit: int) -> str:
    return f"the runtime sets memory+swap to the memory limit {limit}: no swap"


@rule("swap.unlimited", f"{KURT} (1.28-1.29) ConfigureUnlimitedSwap")
def _unlimited() -> str:
    return "UnlimitedSwap"
