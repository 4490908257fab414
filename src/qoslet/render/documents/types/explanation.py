"""The explanation document as types. Written by ``docs.generate.document_types`` from its schema."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from qoslet.render.documents.types.rules import RuleId


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
    rule: RuleId | None
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
