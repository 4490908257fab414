"""The conversion document as types. Written by ``docs.documenttypes`` from its schema."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class ConversionBlock(TypedDict):
    """``ConversionBlock`` in the document."""

    name: str | None
    message: dict[str, Any] | None
    rows: list[ConversionRow]
    refused: ConversionRefusal | None
    lost: list[ConversionLost]
    parity: list[ConversionParity]


class ConversionRow(TypedDict):
    """``ConversionRow`` in the document."""

    file: str
    value: str
    field: str
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


class ConversionRefusal(TypedDict):
    """``ConversionRefusal`` in the document."""

    field: str
    file: str | None
    by: Literal["runtime", "kernel"]
    message: str
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


class ConversionLost(TypedDict):
    """``ConversionLost`` in the document."""

    what: str
    field: str | None
    fate: Literal["ignored", "refused", "elsewhere"]
    why: str
    instead: str


class ConversionProblem(TypedDict):
    """``ConversionProblem`` in the document."""

    severity: Literal["error", "warning", "info"]
    where: str
    message: str
    hint: str


class ConversionParity(TypedDict):
    """``ConversionParity`` in the document."""

    what: str
    asked: str
    verdict: Literal["enforced", "approximated", "absent"]
    how: str
    instead: str | None


_ConversionDocumentKeywords = TypedDict(
    "_ConversionDocumentKeywords", {"from": "Literal['oci', 'cri', 'pod']"}
)


class ConversionDocument(_ConversionDocumentKeywords):
    """What resource blocks turn into."""

    apiVersion: Literal["qoslet/v1"]
    kind: Literal["Conversion"]
    to: Literal["v1", "v2", "systemd", "oci", "cri", "windows", "docker"]
    hierarchy: Literal["v1", "v2", None]
    driver: Literal["cgroupfs", "systemd", None]
    runtime: str
    action: Literal["create", "update"]
    blocks: list[ConversionBlock]
    accounting: list[ConversionLost]
    problems: list[ConversionProblem]
    isolation: Literal["process", "hyperv", None]
