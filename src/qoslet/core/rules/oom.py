"""oom_score_adj: which process the kernel kills first when memory runs out."""

from __future__ import annotations

from qoslet.core.rules.catalog import rule
from qoslet.core.rules.cpu import wrap64

POLICY = "kubelet pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust"

BEST_EFFORT = 1000
SANDBOX = -998
"""containerd and CRI-O give it to the pause container."""


def burstable(request: int, capacity: int) -> int:
    """1000 less the request's thousandths of the machine's memory, unclamped."""
    if capacity == 0:
        return BEST_EFFORT
    product = wrap64(1000 * request)
    share = abs(product) // capacity
    return 1000 - (share if product >= 0 else -share)


def clamped(score: int, guaranteed: int) -> int:
    """A Burstable score kept between Guaranteed and BestEffort (3 and 999 for -997)."""
    if score < 1000 + guaranteed:
        return 1000 + guaranteed
    return BEST_EFFORT - 1 if score == BEST_EFFORT else score


@rule("oom.guaranteed", POLICY)
def _guaranteed(score: int) -> str:
    return f"Guaranteed pod: {score}"


@rule("oom.critical", POLICY)
def _critical(score: int) -> str:
    return f"priority class system-node-critical: {score}"


@rule("oom.besteffort", POLICY)
def _besteffort(score: int) -> str:
    return f"BestEffort pod: {score}"


@rule("oom.burstable", POLICY)
def _burstable(score: int, request: int, capacity: int, smallest: int | None) -> str:
    text = f"1000 - 1000 x memory request {request} / node memory {capacity} -> {score}"
    if smallest is not None:
        text += f" (a sidecar is not above the smallest regular request {smallest})"
    return text


@rule("oom.sandbox", "containerd and CRI-O defaults for the pause container")
def _sandbox(score: int) -> str:
    return f"the runtime's default for a sandbox: {score}"
