"""CPU of a cgroup as a kubelet reads it back, which qoslet never does: rules are held to be its
inverse."""

from __future__ import annotations

from qoslet.core.rules.cpu import MAX_SHARES, MILLI_PER_CPU, MIN_SHARES, SHARES_PER_CPU


def milli_of_shares(amount: int) -> int:
    """cpu.shares back to millicores, rounded up. Source: sharesToMilliCPU (kuberuntime)."""
    if amount < MIN_SHARES:
        return 0
    return -(-amount * MILLI_PER_CPU // SHARES_PER_CPU)


def milli_of_quota(quota_us: int, period_us: int) -> int:
    """A quota back to millicores; -1 (no limit) gives 0. Source: quotaToMilliCPU."""
    if quota_us == -1 or period_us == 0:
        return 0
    milli = abs(quota_us) * MILLI_PER_CPU // period_us
    return milli if quota_us > 0 else -milli


def shares_of_weight(weight: int) -> int:
    """cpu.weight back to shares as the kubelet reads it. Source: cgroup v2 GetCgroupConfig."""
    return (weight - 1) * (MAX_SHARES - MIN_SHARES) // 9999 + MIN_SHARES
