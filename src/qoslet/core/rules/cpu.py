"""CPU: millicores to shares, quota and weight, and back.

Integer arithmetic is Go's: products wrap at 64 bits and division truncates towards zero.
"""

from __future__ import annotations

from qoslet.core.quantity import canonical, from_milli
from qoslet.core.rules.catalog import rule

HELPERS = "kubelet pkg/kubelet/cm/helpers_linux.go"

MIN_SHARES = 2
MAX_SHARES = 262144
SHARES_PER_CPU = 1024
QUOTA_PERIOD_US = 100_000
MIN_QUOTA_US = 1000
MILLI_PER_CPU = 1000


def wrap64(number: int) -> int:
    """``number`` as a signed 64-bit register holds it."""
    return (number + 2**63) % 2**64 - 2**63


def _go_div(dividend: int, divisor: int) -> int:
    """Integer division that truncates towards zero."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def shares(milli: int) -> int:
    """Millicores to cpu.shares, 2..262144. Source: MilliCPUToShares.

    The product wraps: requests of 1P cores and more end at 2 shares.
    """
    if milli == 0:
        return MIN_SHARES
    amount = _go_div(wrap64(milli * SHARES_PER_CPU), MILLI_PER_CPU)
    return min(max(amount, MIN_SHARES), MAX_SHARES)


def quota(milli: int, period_us: int) -> int:
    """Millicores to a CFS quota in microseconds: 0 for 0, else at least 1000. Source:
    MilliCPUToQuota. There is no upper clamp."""
    if milli == 0:
        return 0
    return max(_go_div(wrap64(milli * period_us), MILLI_PER_CPU), MIN_QUOTA_US)


def weight_linear(amount: int) -> int:
    """cpu.shares to cpu.weight on the line of KEP-2254: 2..262144 to 1..10000; 0 is "unset"."""
    if amount == 0:
        return 0
    if amount >= MAX_SHARES:
        return 10000
    return 1 + (amount - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)


def shares_of_weight(weight: int) -> int:
    """cpu.weight as the shares that a kubelet reads from it. Source: cgroup_v2_manager_linux.go
    cpuWeightToCPUShares. Of some shares it is not the only weight: 80 are those of 4, whose own weight is 3."""
    return (weight - 1) * (MAX_SHARES - MIN_SHARES) // 9999 + MIN_SHARES


def weight_quadratic(amount: int) -> int:
    """cpu.shares to cpu.weight as runtimes do since mid 2025: 1024 shares are weight 100.

    Source: opencontainers/cgroups >= 0.0.3 ConvertCPUSharesToCgroupV2Value; crun >= 1.23.
    """
    if amount == 0:
        return 0
    if amount <= MIN_SHARES:
        return 1
    if amount >= MAX_SHARES:
        return 10000
    # imported where v2 has such runtimes: a start on v1 need not wait for it
    from math import ceil, log2

    level = log2(amount)
    exponent = (level * level + 125 * level) / 612.0 - 7.0 / 34.0
    return ceil(10**exponent)


def _cpu(milli: int) -> str:
    return canonical(from_milli(milli))


def _of(subject: str, milli: int, amount: int) -> str:
    if subject.startswith("="):
        return f"{subject[1:]} -> {amount} shares"
    return f"{subject} {_cpu(milli)} -> {amount} shares"


@rule("cpu.shares", f"{HELPERS} MilliCPUToShares; design: pod-resource-management")
def _shares(subject: str, milli: int, amount: int) -> str:
    return _of(subject, milli, amount)


@rule("cpu.weight.linear", "KEP-2254; kubelet vendored cgroups library, runc <= 1.3.1, crun < 1.23")
def _linear(subject: str, milli: int, amount: int) -> str:
    return f"{_of(subject, milli, amount)} -> weight {weight_linear(amount)}"


@rule("cpu.weight.quadratic", "opencontainers/cgroups >= 0.0.3, runc >= 1.3.2, crun >= 1.23")
def _quadratic(subject: str, milli: int, amount: int) -> str:
    return f"{_of(subject, milli, amount)} -> weight {weight_quadratic(amount)}"


def _quota_text(subject: str, milli: int, period_us: int, quota_us: int) -> str:
    if quota_us == -1:
        return f"{subject} -> no quota, period {period_us} us"
    if quota_us == 0:
        return f"no {subject} -> no quota, period {period_us} us"
    return f"{subject} {_cpu(milli)} x {period_us} us -> quota {quota_us} us"


@rule("cpu.quota", f"{HELPERS} MilliCPUToQuota; design: pod-resource-management")
def _quota(subject: str, milli: int, period_us: int, quota_us: int) -> str:
    return _quota_text(subject, milli, period_us, quota_us)


@rule("cpu.period", f"{HELPERS} MilliCPUToQuota; KubeletConfiguration cpuCFSQuotaPeriod")
def _period(subject: str, milli: int, period_us: int, quota_us: int) -> str:
    return f"CFS period {period_us} us, set with every quota"


@rule("cpu.max", f"{HELPERS} MilliCPUToQuota; KEP-2254: quota and period are one file")
def _max(subject: str, milli: int, period_us: int, quota_us: int) -> str:
    return _quota_text(subject, milli, period_us, quota_us)


@rule("cpuset.all", "kubelet cm node_container_manager_linux.go; so that systemd knows it")
def _cpuset(cpus: str) -> str:
    return f"CPU manager policy none -> all CPUs {cpus}"


def systemd_quota(quota_us: int, period_us: int) -> int:
    """The quota that the systemd driver leaves: whole percents of a CPU, rounded up.

    Source: opencontainers/cgroups systemd addCPUQuota. In and out in microseconds.
    """
    if quota_us <= 0:
        return quota_us
    period = period_us or QUOTA_PERIOD_US
    per_second = systemd_quota_per_second(quota_us, period)
    return per_second * period // 1_000_000


def systemd_quota_per_second(quota_us: int, period_us: int) -> int:
    """CPUQuotaPerSecUSec for a quota, in microseconds per second."""
    per_second = quota_us * 1_000_000 // (period_us or QUOTA_PERIOD_US)
    if per_second % 10_000:
        per_second = (per_second // 10_000 + 1) * 10_000
    return per_second
