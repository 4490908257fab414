"""The diff document as types. Written by ``docs.documenttypes`` from its schema."""

from __future__ import annotations

from typing import Literal, TypedDict


class DiffNode(TypedDict):
    """``DiffNode`` in the document."""

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
    assumed: list[DiffAssumed]
    os: Literal["linux", "windows"]
    cgroupsInForce: bool


class DiffAssumed(TypedDict):
    """``DiffAssumed`` in the document."""

    field: str
    value: str
    why: str


class DiffPodName(TypedDict):
    """``DiffPodName`` in the document."""

    namespace: str
    name: str


_DiffChangeKeywords = TypedDict("_DiffChangeKeywords", {"from": "str | None"})


class DiffChange(_DiffChangeKeywords):
    """``DiffChange`` in the document."""

    name: str
    level: Literal["node", "qos", "pod", "sandbox", "container"]
    pod: DiffPodName
    container: str | None
    file: str | None
    to: str | None
    rules: list[
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
    ]
    severity: Literal["error", "warning", "info"]
    direction: Literal["worse", "better", "same"]
    aspect: str
    meaning: str


_DiffShareKeywords = TypedDict("_DiffShareKeywords", {"from": "float"})


class DiffShare(_DiffShareKeywords):
    """``DiffShare`` in the document."""

    name: str
    level: Literal["node", "qos", "pod", "sandbox", "container"]
    pod: DiffPodName
    container: str | None
    to: float
    direction: Literal["worse", "better", "same"]


class DiffHint(TypedDict):
    """``DiffHint`` in the document."""

    pod: DiffPodName
    container: str
    image: str
    message: str


class DiffDocumentSummary(TypedDict):
    """``DiffDocumentSummary`` in the document."""

    worse: int
    better: int
    changed: int


_DiffDocumentKeywords = TypedDict("_DiffDocumentKeywords", {"from": "DiffNode"})


class DiffDocument(_DiffDocumentKeywords):
    """What differs between two plans, and what it means."""

    apiVersion: Literal["qoslet/v1"]
    kind: Literal["Diff"]
    to: DiffNode
    changes: list[DiffChange]
    summary: DiffDocumentSummary
    shares: list[DiffShare]
    hints: list[DiffHint]
