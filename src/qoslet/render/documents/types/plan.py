"""The plan document as types. Written by ``docs.generate.document_types`` from its schema."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from qoslet.render.documents.types.rules import RuleId


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
    rule: RuleId
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
