"""The plan document as types. Written by ``docs.documenttypes`` from its schema."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class PlanNode(TypedDict):
    """``PlanNode`` in the document."""

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
    assumed: list[PlanAssumed]
    os: Literal["linux", "windows"]
    cgroupsInForce: bool


class PlanAssumed(TypedDict):
    """``PlanAssumed`` in the document."""

    field: str
    value: str
    why: str


class PlanPodName(TypedDict):
    """``PlanPodName`` in the document."""

    namespace: str
    name: str


class PlanPodController(TypedDict):
    """``PlanPodController`` in the document."""

    kind: str
    name: str


class PlanPod(TypedDict):
    """``PlanPod`` in the document."""

    namespace: str
    name: str
    uid: str
    uidFrom: Literal["manifest", "generated", "config.hash"]
    qosClass: Literal["Guaranteed", "Burstable", "BestEffort"]
    guard: PlanGuard | None
    isolation: Literal["process", "hyperv", "host", None]
    controller: PlanPodController | None


_PlanGuardKeywords = TypedDict("_PlanGuardKeywords", {"from": "Literal['annotation', 'default']"})


class PlanGuard(_PlanGuardKeywords):
    """``PlanGuard`` in the document."""

    mode: Literal["off", "observe", "act"]
    because: str


class PlanCgroup(TypedDict):
    """``PlanCgroup`` in the document."""

    name: str
    level: Literal["node", "qos", "pod", "sandbox", "container"]
    role: Literal["regular", "init", "sidecar", "ephemeral", None]
    path: str | None
    unit: str | None
    pod: PlanPodName | None
    container: str | None
    oomScoreAdj: int | None
    settings: list[PlanSetting]


class PlanSettingBinds0(TypedDict):
    """``PlanSettingBinds0`` in the document."""

    name: str
    file: Literal["memory.high", "memory.max"]
    value: str


class PlanSetting(TypedDict):
    """``PlanSetting`` in the document."""

    file: str
    value: str
    writer: Literal["kubelet", "runtime", "qoslet"]
    property: str | None
    rule: Literal[
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
    because: str
    source: str
    effective: NotRequired[str]
    worth: NotRequired[str]
    binds: NotRequired[PlanSettingBinds0 | None]


class PlanProblem(TypedDict):
    """``PlanProblem`` in the document."""

    severity: Literal["error", "warning", "info"]
    where: str
    message: str
    hint: str


class PlanDocument(TypedDict):
    """The cgroups that pods need on a node."""

    apiVersion: Literal["qoslet/v1"]
    kind: Literal["Plan"]
    node: PlanNode
    pods: list[PlanPod]
    cgroups: list[PlanCgroup]
    problems: list[PlanProblem]
