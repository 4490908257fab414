"""Which rules a Kubernetes release and a runtime use: one row for each change, with evidence.

A profile is the rows up to its release, folded. ``1.N`` is what the code of that release does,
quirks included; ``design`` is the five design documents as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, structs

from qoslet.core.versions import feature_gates
from qoslet.core.versions.runtime import KEP_2254, Runtime, by_tables, runtime_of

MemoryQosVariant = Literal["1.22", "1.27", "1.36", "1.37", "design", "qoslet", "off"]
Evidence = Literal["executed", "read", "documented", "inferred"]
SwapForm = Literal["none", "legacy", "1.28", "1.30", "1.31"]
WindowsForm = Literal["none", "1.10", "1.18", "1.27", "design"]

OLDEST, NEWEST = 6, 37
DEFAULT = "1.36"
DEFAULT_RUNTIME = "runc-1.4.0"
MEMORY_QOS_VARIANTS: tuple[MemoryQosVariant, ...] = (
    "1.22", "1.27", "1.36", "1.37", "design", "qoslet", "off",
)  # fmt: skip


class ReleaseBehaviour(Struct, frozen=True):
    """Every choice that changed between releases, as 1.6 made it."""

    zero_cpu_request: Literal["limit", "minimum"] = "limit"
    pod_shares_max: int | None = None
    container_shares_max: int | None = None
    quota_off: Literal["ignored", "unlimited"] = "ignored"
    guaranteed_oom: int = -998
    critical_oom: Literal["none", "critical", "node-critical"] = "none"
    sidecar_oom: bool = False
    qos_counts_init: bool = False
    init_declares: bool = False
    hugepages: Literal["none", "pod", "container"] = "none"
    hugepages_of: Literal["regular", "sums"] = "regular"
    kubepods_cpuset: bool = False
    sidecars: bool = False
    empty_pod_level: bool = True
    pod_level_hugepages: bool = False
    pod_level_limits: bool = False
    limit_alone: Literal["request", "nothing"] = "request"
    summed: Literal["phases", "containers"] = "phases"
    memory_qos: MemoryQosVariant = "off"
    throttling_factor: float | None = None
    swap: SwapForm = "none"
    oom_group: bool = False
    single_process_option: bool = False
    sandbox_resources: bool = False
    cgroup_v2: bool = False
    qos_reserved_gate: bool = False
    qos_reserved_joined: bool = False
    compressible: bool = False
    windows: WindowsForm = "none"
    weight_curve: Literal["runtime", "linear"] = "runtime"
    bfq_weight: Literal["raw", "scaled"] = "raw"
    swap_conversion: Literal["difference", "same"] = "difference"
    rsvd: bool = False
    fail_cgroup_v1: bool = False


class ReleaseChange(Struct, frozen=True):
    """One change: the first minor in which a choice has a value, and the evidence. ``since`` is 0
    for what the design documents say: that is of no release."""

    since: int
    choice: str
    value: object
    evidence: Evidence
    source: str


_CM = "pkg/kubelet/cm"
_KURT = "pkg/kubelet/kuberuntime"

ROWS: tuple[ReleaseChange, ...] = (
    ReleaseChange(8, "hugepages", "pod", "documented", "gate HugePages; kubernetes PR 53672"),
    ReleaseChange(10, "quota_off", "unlimited", "documented", "1.10 changelog, PR 61294"),
    ReleaseChange(
        10, "windows", "1.10", "read", f"{_KURT}/kuberuntime_container_windows.go, 1.15 and 1.16"
    ),
    ReleaseChange(11, "qos_reserved_gate", True, "documented", "1.11 changelog, PR 62509"),
    ReleaseChange(
        14, "critical_oom", "critical", "read", "pkg/kubelet/qos/policy.go of 1.18, PR 73758"
    ),
    ReleaseChange(16, "qos_counts_init", True, "documented", "1.16 changelog, PR 75223"),
    ReleaseChange(
        18, "hugepages", "container", "read", f"{_KURT} of 1.18: every host size is sent"
    ),
    ReleaseChange(
        18, "windows", "1.18", "documented", "kubernetes PR 86101: only cpu_maximum is sent"
    ),
    ReleaseChange(19, "cgroup_v2", True, "documented", "1.19 changelog, PR 85218; KEP-2254"),
    ReleaseChange(20, "guaranteed_oom", -997, "documented", "kubernetes PR 71269"),
    ReleaseChange(20, "pod_shares_max", 262144, "documented", f"PR 93248; {_CM}/helpers_linux.go"),
    ReleaseChange(22, "critical_oom", "node-critical", "documented", "1.22 changelog, PR 99729"),
    ReleaseChange(22, "memory_qos", "1.22", "read", "KEP-2570 alpha; 1.22 and 1.25 sources"),
    ReleaseChange(22, "throttling_factor", 0.8, "read", "KEP-2570 alpha"),
    ReleaseChange(22, "swap", "legacy", "read", f"KEP-2400 alpha; {_KURT} of 1.23"),
    ReleaseChange(
        23, "sandbox_resources", True, "documented", "CRI 0.23 LinuxPodSandboxConfig, PR 104886"
    ),
    ReleaseChange(24, "container_shares_max", 262144, "documented", "1.24 changelog, PR 106570"),
    ReleaseChange(
        26, "zero_cpu_request", "minimum", "executed", f"{_KURT} calculateLinuxResources"
    ),
    ReleaseChange(27, "memory_qos", "1.27", "read", "KEP-2570 alpha 2; 1.27 source"),
    ReleaseChange(27, "throttling_factor", 0.9, "read", "KEP-2570 alpha 2; 1.27 source"),
    ReleaseChange(
        27, "windows", "1.27", "documented", "1.27 changelog, PR 114231: of all processors"
    ),
    ReleaseChange(
        28, "hugepages_of", "sums", "inferred", f"{_CM}/helpers_linux.go, between 1.27 and 1.36"
    ),
    ReleaseChange(28, "init_declares", True, "inferred", f"{_CM}/helpers_linux.go, PR 115367"),
    ReleaseChange(28, "oom_group", True, "read", f"{_KURT} of 1.28"),
    ReleaseChange(28, "sidecars", True, "documented", "KEP-753, gate SidecarContainers"),
    ReleaseChange(28, "swap", "1.28", "read", f"KEP-2400 beta 1; {_KURT} of 1.28"),
    ReleaseChange(29, "rsvd", True, "inferred", "vendored runc 1.1.10: hugetlb reservations"),
    ReleaseChange(
        30, "swap", "1.30", "documented", "KEP-2400 beta 2, PR 122745: UnlimitedSwap dropped"
    ),
    ReleaseChange(
        31, "swap", "1.31", "documented", "1.31 changelog, PR 125277: not for critical pods"
    ),
    ReleaseChange(32, "compressible", True, "documented", "enforceNodeAllocatable *-compressible"),
    ReleaseChange(32, "kubepods_cpuset", True, "documented", "1.32 changelog, PR 125923"),
    ReleaseChange(32, "sidecar_oom", True, "inferred", "pkg/kubelet/qos/policy.go, 1.32 or 1.33"),
    ReleaseChange(32, "single_process_option", True, "documented", "1.32 changelog, PR 126096"),
    ReleaseChange(
        34,
        "pod_level_hugepages",
        True,
        "read",
        "PR 131089: they are defaulted, containers get them",
    ),
    ReleaseChange(35, "fail_cgroup_v1", True, "documented", "KEP-5573 failCgroupV1"),
    ReleaseChange(36, "memory_qos", "1.36", "executed", "KEP-2570 alpha 3; kubelet 1.36.2"),
    ReleaseChange(37, "memory_qos", "1.37", "inferred", "KEP-2570 beta, PRs 140267 138903 138139"),
    ReleaseChange(37, "throttling_factor", None, "documented", "KEP-2570 beta: no default factor"),
    ReleaseChange(
        37, "pod_level_limits", True, "read", "gate PodLevelResourcesFixDefaulting, on; PR 140514"
    ),
    ReleaseChange(
        37, "empty_pod_level", False, "read", "gate PodLevelResourcesFixKubeletQOSClass, on"
    ),
)


def _designed(choice: str, value: object, source: str) -> ReleaseChange:
    return ReleaseChange(0, choice, value, "documented", source)


DESIGN_ROWS: tuple[ReleaseChange, ...] = (
    _designed("memory_qos", "design", "KEP-2570 Alpha v1.27: min and high of all classes"),
    _designed("throttling_factor", 0.9, "KEP-2570 Alpha v1.27"),
    _designed("limit_alone", "nothing", "KEP-2570 Alpha v1.27, Burstable case III: request 0"),
    _designed("summed", "containers", "pod-resource-management and KEP-2570: sum(spec.containers)"),
    _designed("sidecars", False, "pod-resource-management and KEP-2570: spec.containers alone"),
    _designed("qos_reserved_gate", False, "pod-resource-management: a flag, no gate"),
    _designed("qos_reserved_joined", True, "pod-resource-management formula"),
    _designed("windows", "design", "CRI: Windows Container Configuration"),
    _designed("weight_curve", "linear", "KEP-2254: cpu.weight of containers too"),
    _designed("bfq_weight", "scaled", "KEP-2254: blkio weight to io.bfq.weight"),
    _designed("swap_conversion", "same", "KEP-2254: swap to memory.swap.max, y = x"),
    _designed("rsvd", False, "KEP-2254: hugetlb.PAGE_SIZE.max alone"),
)
"""What the documents say differently from the newest code."""

DESIGN_GATES = {
    "InPlacePodLevelResourcesVerticalScaling": False,
    "MemoryQoS": False,
    "PodLevelResources": False,
}
"""Gates whose default in the documents is not the newest release's: KEP-2570 sets its gate by flag,
and no document has pod-level resources."""

RULE_GATES = (
    "CPUManager",
    "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions",
    "CPUManagerPolicyOptions",
    "CustomCPUCFSQuotaPeriod",
    "DisableCPUQuotaWithExclusiveCPUs",
    "HyperVContainer",
    "HugePages",
    "InPlacePodLevelResourcesVerticalScaling",
    "MemoryManager",
    "MemoryQoS",
    "NodeSwap",
    "PodLevelResources",
    "PodOverhead",
    "QOSReserved",
    "SidecarContainers",
    "SupportNodePidsLimit",
    "SupportPodPidsLimit",
    "TopologyManager",
)
"""The gates that decide about a value."""


class Profile(Struct, frozen=True):
    """The choices of one Kubernetes release (or of the design documents) and its runtime.

    ``memory_qos`` is the variant if Memory QoS is enabled; ``memory_qos_forced``: the user named it,
    so the gate does not count. ``gates`` are the release's defaults.
    """

    kubernetes: str
    minor: int
    runtime: Runtime
    choices: ReleaseBehaviour
    memory_qos: MemoryQosVariant
    memory_qos_forced: bool
    gates: Mapping[str, bool]


def minor_of(text: str) -> str:
    """``v1.36.2`` or ``1.36`` to ``1.36``; ``design`` stays; ValueError says what is wrong."""
    if text == "design":
        return text
    parts = text.removeprefix("v").split(".")
    if len(parts) < 2 or parts[0] != "1" or not parts[1].rstrip("+").isdecimal():
        raise ValueError(f"{text!r} is not a Kubernetes release such as 1.36 or v1.36.2")
    minor = int(parts[1].rstrip("+")[:6])
    if minor < OLDEST:
        raise ValueError(f"{text!r} is older than 1.{OLDEST}, the first release with pod cgroups")
    if minor > NEWEST:
        raise ValueError(f"{text!r} is newer than 1.{NEWEST}, the newest known release")
    return f"1.{minor}"


def rows_of(kubernetes: str) -> list[ReleaseChange]:
    """The rows that make a profile, the deciding one of a choice last."""
    if kubernetes == "design":
        return [*ROWS, *DESIGN_ROWS]
    minor = int(kubernetes.split(".")[1])
    return [row for row in ROWS if row.since <= minor]


def evidence(kubernetes: str, choice: str) -> ReleaseChange | None:
    """The row that sets a choice; None if it is as in 1.6."""
    last = None
    for row in rows_of(kubernetes):
        if row.choice == choice:
            last = row
    return last


def _variant(text: str) -> MemoryQosVariant:
    for variant in MEMORY_QOS_VARIANTS:
        if variant == text:
            return variant
    raise ValueError(f"{text!r} is none of {', '.join(MEMORY_QOS_VARIANTS)}")


def default_runtime(kubernetes: str) -> str:
    """The runtime of a release where none is named; that of the documents is their tables."""
    return KEP_2254 if kubernetes == "design" else DEFAULT_RUNTIME


def resolve(
    kubernetes: str = DEFAULT,
    runtime: str | None = None,
    memory_qos: str | None = None,
    *,
    named: bool = True,
) -> Profile:
    """The profile of a release and a runtime; ``memory_qos`` overrides the variant of Memory QoS.

    Without a runtime it is ``default_runtime``. If the release is not ``named``, the variant is
    ``qoslet``. Raises ValueError with a message for
    an unknown release, runtime or variant.
    """
    release = minor_of(kubernetes)
    choices = structs.replace(
        ReleaseBehaviour(), **{row.choice: row.value for row in rows_of(release)}
    )
    minor = NEWEST if release == "design" else int(release.split(".")[1])
    defaults = {name: feature_gates.default(name, minor) for name in RULE_GATES}
    if release == "design":
        defaults |= DESIGN_GATES
    variant = choices.memory_qos if named else "qoslet"
    if memory_qos is not None:
        variant = _variant(memory_qos)
    writer = runtime_of(runtime or default_runtime(release))
    if release == "design":
        writer = by_tables(writer)
    return Profile(
        kubernetes=release,
        minor=minor,
        runtime=writer,
        choices=choices,
        memory_qos=variant,
        memory_qos_forced=memory_qos is not None,
        gates=defaults,
    )
