"""The explanation document as types. Written by ``docs.documenttypes`` from its schema."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class ExplanationNode(TypedDict):
    """``ExplanationNode`` in the document."""

    name: str | None
    hierarchy: Literal["v1", "v2"]
    driver: Literal["cgroupfs", "systemd"]
    kubernetes: str
    runtime: str
    memoryQos: Literal["1.22", "1.27", "1.36", "1.37", "design", "qoslet", "off"]
    capacity: dict[str, str]
    allocatable: dict[str, str]
    enforced: dict[str, str]
    probed: list[str]
    memoryQosInForce: bool
    assumed: list[ExplanationAssumed]
    os: Literal["linux", "windows"]
    cgroupsInForce: bool


class ExplanationAssumed(TypedDict):
    """``ExplanationAssumed`` in the document."""

    field: str
    value: str
    why: str


class ExplanationPod(TypedDict):
    """``ExplanationPod`` in the document."""

    namespace: str
    name: str
    uid: str
    where: str
    qosClass: Literal["Guaranteed", "Burstable", "BestEffort"]
    decidedBy: list[str]
    guard: ExplanationGuard | None
    findings: list[ExplanationFinding]


_ExplanationGuardKeywords = TypedDict(
    "_ExplanationGuardKeywords", {"from": "Literal['annotation', 'default']"}
)


class ExplanationGuard(_ExplanationGuardKeywords):
    """``ExplanationGuard`` in the document."""

    mode: Literal["off", "observe", "act"]
    because: str


class ExplanationFinding(TypedDict):
    """``ExplanationFinding`` in the document."""

    severity: Literal["error", "warning", "info"]
    where: str
    message: str
    hint: str


class ExplanationCgroup(TypedDict):
    """``ExplanationCgroup`` in the document."""

    name: str
    level: Literal["node", "qos", "pod", "sandbox", "container"]
    role: Literal["regular", "init", "sidecar", "ephemeral", None]
    path: str | None
    unit: str | None
    container: str | None
    values: list[ExplanationValue]


class ExplanationValueLive(TypedDict):
    """``ExplanationValueLive`` in the document."""

    found: str | None
    error: str | None
    verdict: str | None
    property: str | None


class ExplanationValue(TypedDict):
    """``ExplanationValue`` in the document."""

    file: str
    value: str | None
    effective: str | None
    writer: Literal["kubelet", "runtime", "qoslet"] | None
    property: str | None
    because: str
    rule: (
        Literal[
            "cpu.max",
            "cpu.period",
            "cpu.quota",
            "cpu.shares",
            "cpu.weight.linear",
            "cpu.weight.quadratic",
            "cpuset.all",
            "cpuset.exclusive",
            "cpuset.mems",
            "cpuset.shared",
            "hugetlb.request",
            "hugetlb.unbounded",
            "hugetlb.zero",
            "memory.desired",
            "memory.high.1.22",
            "memory.high.1.27",
            "memory.high.annotation",
            "memory.high.cleared",
            "memory.high.pod",
            "memory.limit.container",
            "memory.limit.node",
            "memory.limit.pod",
            "memory.limit.reserve",
            "memory.limit.reserve.joined",
            "memory.limit.reserved",
            "memory.low.qoslet",
            "memory.low.reserved",
            "memory.low.sum",
            "memory.low.sum.qoslet",
            "memory.low.tiered",
            "memory.min.qoslet",
            "memory.min.request",
            "memory.min.reserved",
            "memory.min.reserved.qoslet",
            "memory.min.soft",
            "memory.min.sum",
            "memory.min.sum.qoslet",
            "memory.min.tiered",
            "memory.oom.group",
            "memory.oom.group.annotation",
            "memory.protection.annotation",
            "memory.protection.none",
            "memory.protection.nothing",
            "oci.cpu.max",
            "oci.cpu.weight.linear",
            "oci.cpu.weight.quadratic",
            "oci.hugetlb",
            "oci.hugetlb.rsvd",
            "oci.io.rates",
            "oci.io.weight",
            "oci.io.weight.scaled",
            "oci.pids",
            "oci.same",
            "oci.swap.alone",
            "oci.swap.difference",
            "oci.swap.same",
            "oci.swap.unlimited",
            "oci.swap.with-limit",
            "oci.unified",
            "oci.unlimited",
            "oom.besteffort",
            "oom.burstable",
            "oom.critical",
            "oom.guaranteed",
            "oom.sandbox",
            "pids.node",
            "pids.pod",
            "pids.reserved",
            "refused.bfq",
            "refused.cri-o",
            "refused.kernel",
            "refused.shares",
            "refused.swap",
            "refused.swappiness",
            "refused.table",
            "refused.unified",
            "refused.usage",
            "refused.v2",
            "refused.windows",
            "refused.windows.affinity",
            "refused.windows.host_process",
            "refused.windows.percent",
            "refused.windows.range",
            "swap.equal",
            "swap.legacy",
            "swap.limited",
            "swap.none",
            "swap.unlimited",
            "unit.crun.io",
            "unit.crun.swap",
            "unit.idle",
            "windows.cpu_count",
            "windows.cpu_maximum",
            "windows.cpu_maximum.design",
            "windows.cpu_maximum.hyperv",
            "windows.cpu_shares",
            "windows.cpu_shares.least",
            "windows.memory",
            "windows.object.count",
            "windows.object.maximum",
            "windows.object.memory",
            "windows.object.storage",
            "windows.object.weight",
        ]
        | None
    )
    source: str | None
    inputs: list[ExplanationInput]
    profile: str
    evidence: str | None
    written: str | None
    kept: str | None
    alternatives: list[ExplanationAlternative]
    worth: NotRequired[int | None]
    standing: NotRequired[str | None]
    live: NotRequired[ExplanationValueLive]


class ExplanationInput(TypedDict):
    """``ExplanationInput`` in the document."""

    field: str
    given: str
    value: str
    where: str


class ExplanationAlternative(TypedDict):
    """``ExplanationAlternative`` in the document."""

    axis: Literal["kubernetes", "memoryQos", "runtime"]
    profiles: str
    value: str | None
    current: bool


class ExplanationDocument(TypedDict):
    """Why the values of a pod, a container or a cgroup are what they are."""

    apiVersion: Literal["qoslet/v1"]
    kind: Literal["Explanation"]
    node: ExplanationNode
    target: str
    pod: ExplanationPod | None
    cgroups: list[ExplanationCgroup]
