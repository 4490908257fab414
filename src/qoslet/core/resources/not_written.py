"""Why a rule does not write a file: recorded where the rule decides, read by explain."""

from __future__ import annotations

from msgspec import Struct


class Reason:
    """The reasons, as sentences with their inputs in braces. They are plain text: an enum of as many
    costs every start a hundredth."""

    NO_RELEASE = "Kubernetes {} has no Memory QoS: 1.22 is the first"
    DISABLED = "{} disables Memory QoS"
    GATE_OFF = (
        "Memory QoS is disabled: the gate MemoryQoS is false on this node (see --feature-gates"
        " MemoryQoS=true or --memory-qos {})"
    )
    NO_REQUEST = "no memory request"
    MIN_ONLY = "Memory QoS variant {} protects only with memory.min"
    NOT_PROTECTED = "memoryReservationPolicy is {}: requests are not protected"
    OTHER_FILE = "a {} pod is protected by {} with TieredReservation"
    PODS_NOT_ENFORCED = "KEP-2570 protects kubepods only where pods are enforced: enforceNodeAllocatable has no pods"
    NOT_ON_KUBEPODS = (
        "variant 1.36 does not write it on kubepods, so memory.low of pods has no effect"
    )
    BEST_EFFORT_TIER = "BestEffort pods request nothing, so their QoS cgroup protects nothing"
    LOW_PROTECTS = "memory.low protects the Burstable QoS cgroup"
    RESERVED_MIN = "variant {} protects reservations only with memory.min"
    HIGH_ON_CONTAINERS = (
        "memory.high is written on containers, since 1.37 also on pods with pod-level memory limits"
    )
    NO_FACTOR = (
        "memoryThrottlingFactor is not set and has no default in Memory QoS variant {}: nothing is"
        " throttled"
    )
    GUARANTEED = "Guaranteed pods are not throttled"
    BOTH_UNSET = (
        "request and limit are both unset and count as equal: the kubelet deviates from KEP-2570;"
        " fixed in 1.37"
    )
    REQUEST_IS_LIMIT = "the memory request equals the limit ({}): nothing to throttle"
    NO_ROOM = (
        "the value would not exceed the request {}: with limit or allocatable {} and factor {}"
        " less than a page remains"
    )
    UNTHROTTLED = "the annotation on memory.high sets no limit"
    QUOTA_OFF = "cpuCFSQuota is false: CPU limits are not enforced"
    NO_CPU_LIMIT = "the container has no cpu limit"
    NO_MEMORY_LIMIT = "no memory limit"
    BEST_EFFORT = "BestEffort pods have no limits"
    NOT_ALL_LIMITED = (
        "a pod gets a limit only if all its containers have one; without a {} limit: {}"
    )
    NO_QOS_RESERVED = "a QoS cgroup gets a limit only with --qos-reserved"
    QOS_RESERVED_GATE = "the gate QOSReserved is disabled (--feature-gates QOSReserved=true)"
    NO_ALLOCATABLE = "the node has no allocatable memory to reserve"
    NO_SWAP_ACCOUNTING = "the host does not account swap (host.swapController is false)"
    SWAP_UNSAID = "neither Kubernetes {} nor the runtime sets swap here"
    NO_LIMIT_FOR_SWAP = "the container has no memory limit, so swap has none"
    NO_POD_PIDS = "podPidsLimit is {}: no limit (--pod-max-pids sets one)"
    POD_PIDS_GATE = "the gate SupportPodPidsLimit is disabled"
    NO_PIDS = "no PIDs are reserved here, or the node's PID capacity is unknown"
    OOM_GROUP_SINCE = "Kubernetes writes it since 1.28"
    SINGLE_PROCESS = "singleProcessOOMKill is true: the kernel kills one process"


class NotWritten(Struct, frozen=True, gc=False):
    """A file that a rule does not write, by its name in v2."""

    file: str
    reason: str
    inputs: tuple[object, ...] = ()

    @property
    def sentence(self) -> str:
        """The reason with its inputs."""
        return self.reason.format(*self.inputs)
