"""Windows containers: job objects have a cap per container and no pod level."""

from __future__ import annotations

from qoslet.core.rules.catalog import rule

KURT = "kubelet pkg/kubelet/kuberuntime/kuberuntime_container_windows.go"
SHARES = "kubelet pkg/kubelet/kuberuntime/helpers_windows.go milliCPUToShares"
DESIGN = "design: CRI Windows container configuration"

MAXIMUM = 10_000
GROUP = 64
"""Processors of the largest group."""


def one_group(processors: int) -> int:
    """Processors of one processor group: Go's runtime.NumCPU, the divisor before 1.27. Windows makes
    as few and as equal groups as possible. Source: kubernetes issue 114211, 48 of 96; moby issue
    38935, 36 of 72."""
    groups = -(-processors // GROUP)
    return -(-processors // groups)


def cpu_maximum(milli: int, processors: int) -> int:
    """Share of all processors in 1/10000, kept within 1..10000; 0 without a limit (1.10+)."""
    if milli == 0:
        return 0
    return min(max(10 * milli // processors, 1), MAXIMUM)


def milli_of_maximum(maximum: int, processors: int) -> int:
    """A cap back to millicores; lossy. Source: toKubeContainerResources."""
    return maximum * processors // 10


def cpu_count_design(milli: int) -> int:
    """The document's count: one more than needed for whole CPUs; 0 if unset."""
    return (milli + 1000) // 1000 if milli else 0


def cpu_count_hyperv(milli: int) -> int:
    """1.10-1.17 under Hyper-V: CPUs rounded up; 0 if unset."""
    return (milli + 999) // 1000 if milli else 0


def cpu_maximum_hyperv(milli: int, count: int) -> int:
    """1.10-1.17 under Hyper-V: the cap of each of ``count`` processors, within 1..10000, computed
    from whole millicores of a processor; 0 if unset."""
    return min(max(milli // count * MAXIMUM // 1000, 1), MAXIMUM) if count else 0


def least_shares(hyperv: bool) -> int:
    """1.10-1.17: the smallest weight that is sent."""
    return 10 if hyperv else 5000


def shares_between(milli: int, processors: int, hyperv: bool) -> int:
    """1.10-1.17: the limit's share of the range above the smallest weight, between that weight and
    10000. Under process isolation the result is the smallest weight until the limit exceeds the
    machine."""
    least = least_shares(hyperv)
    return min(max(milli * (MAXIMUM - least) // processors // 1000, least), MAXIMUM)


def cpu_shares_design(milli: int, processors: int) -> int:
    """The document's milliCPUToShares: millicores on 0..10000 of the machine; 0 if unset."""
    return min(milli * MAXIMUM // (processors * 1000), MAXIMUM) if milli else 0


def _processors(count: int) -> str:
    return "1 processor" if count == 1 else f"{count} processors"


@rule("windows.cpu_maximum", KURT)
def _maximum(milli: int, processors: int, amount: int) -> str:
    return f"10 x limit {milli}m / {_processors(processors)} -> {amount} of 10000"


@rule("windows.cpu_maximum.hyperv", f"{KURT} (1.10-1.17, Hyper-V)")
def _maximum_hyperv(milli: int, count: int, amount: int) -> str:
    per_processor = f"{_processors(count)} = {milli // count}m"
    return f"limit {milli}m / {per_processor}; x 10 -> {amount} of 10000"


@rule("windows.cpu_maximum.design", DESIGN)
def _maximum_design(milli: int, processors: int, amount: int) -> str:
    return f"limit {milli}m / {processors} / 1000 x 10000 -> {amount}"


@rule("windows.cpu_count", f"{DESIGN}; {KURT} (1.10-1.17, Hyper-V)")
def _count(milli: int, amount: int) -> str:
    return f"limit {milli}m -> {_processors(amount)}"


@rule("windows.cpu_shares", DESIGN)
def _shares(milli: int, processors: int, amount: int, of: str = "limit") -> str:
    return f"{of} {milli}m of {_processors(processors)} -> {amount} of 10000"


@rule("windows.cpu_shares.least", f"{SHARES} (1.10-1.17)")
def _shares_least(milli: int, processors: int, least: int, amount: int) -> str:
    part = f"{MAXIMUM - least} x limit {milli}m / {_processors(processors)}"
    return f"{part}, at least {least} and at most 10000 -> {amount}"


@rule("windows.memory", KURT)
def _memory(amount: int) -> str:
    return f"memory limit {amount}"


HCSSHIM = "hcsshim internal/hcsoci ConvertCPULimits, createWindowsContainerDocument"


@rule("windows.object.count", f"{HCSSHIM}; {DESIGN}")
def _object_count(count: int, processors: int | None) -> str:
    if processors is None or count <= processors:
        return _processors(count)
    return f"{count} processors requested, {processors} available"


@rule("windows.object.weight", f"{HCSSHIM}; {DESIGN}")
def _object_weight(weight: int) -> str:
    return f"weight {weight} of 1 to 10000 among containers with a weight; no cap"


@rule("windows.object.maximum", f"{HCSSHIM}; {KURT} toKubeContainerResources; {DESIGN}")
def _object_maximum(maximum: int, processors: int | None, isolated: bool) -> str:
    share = f"{maximum / 100:g}% of {'each processor' if isolated else 'all processors'}"
    if processors is None:
        return f"hard cap at {share}"
    return f"hard cap at {share}; of {processors} read back as {milli_of_maximum(maximum, processors)}m"


@rule("windows.object.storage", "hcsshim internal/hcsoci createWindowsContainerDocument")
def _object_storage(rate: int, what: str) -> str:
    return f"at most {rate} {what} a second on the container's system drive"


@rule("windows.object.memory", "hcsshim internal/hcsoci: the limit in whole MiB")
def _object_memory(amount: int) -> str:
    return f"{amount} bytes in whole MiB"


@rule("refused.windows", HCSSHIM)
def _refused(count: int, maximum: int, weight: int) -> str:
    return f"count {count}, maximum {maximum} and shares {weight}: a job object takes only one"


@rule("refused.windows.range", f"{DESIGN}; hcsshim passes it on, and Windows rejects it")
def _refused_range(field: str, amount: int) -> str:
    return f"{field} {amount}: its range is 1 to {MAXIMUM}"


@rule("refused.windows.percent", "dockershim docker_container_windows.go; moby daemon_windows.go")
def _refused_percent(maximum: int) -> str:
    return f"dockershim passes the maximum {maximum} of 10000 on as percent"


@rule(
    "refused.windows.host_process", "kubernetes.io create-hostprocess-pod; hcsshim before PR 2531"
)
def _refused_host_process() -> str:
    return "Hyper-V isolation and hostProcess exclude each other"


@rule("refused.windows.affinity", "hcsshim internal/hcsoci ValidateCPUAffinityEntries")
def _refused_affinity(number: int) -> str:
    return f"entry {number} has no processor"
