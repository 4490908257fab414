"""The audit document as types. Written by ``docs.generate.document_types`` from its schema."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class AuditNode(TypedDict):
    """``AuditNode`` in the document."""

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
    assumed: list[AuditAssumed]
    os: Literal["linux", "windows"]
    cgroupsInForce: bool


class AuditAssumed(TypedDict):
    """``AuditAssumed`` in the document."""

    field: str
    value: str
    why: str


class AuditPodName(TypedDict):
    """``AuditPodName`` in the document."""

    namespace: str
    name: str


class AuditFinding(TypedDict):
    """``AuditFinding`` in the document."""

    verdict: Literal[
        "drift",
        "latent",
        "stale",
        "missing",
        "orphan",
        "foreign",
        "controller",
        "driver",
        "weights",
        "ineffective",
        "rounding",
        "pending",
    ]
    severity: Literal["error", "warning", "info"]
    name: str
    path: str
    unit: str | None
    pod: AuditPodName | None
    container: str | None
    file: str | None
    expected: str | None
    found: str | None
    property: str | None
    propertyName: str | None
    writer: str | None
    mayHave: list[str]
    resetBy: str | None
    rule: str | None
    because: str | None
    source: str | None
    fix: str | None
    message: str
    hint: str


class AuditEvent(TypedDict):
    """``AuditEvent`` in the document."""

    apiVersion: Literal["qoslet/v1"]
    kind: Literal["AuditEvent"]
    time: str
    event: Literal["appeared", "changed", "gone"]
    finding: AuditFinding
    before: AuditFinding | None


class AuditDocumentUnread(TypedDict):
    """``AuditDocumentUnread`` in the document."""

    path: str
    file: str | None
    error: str


class AuditDocumentRepairSteps(TypedDict):
    """``AuditDocumentRepairSteps`` in the document."""

    path: str
    file: str
    value: str
    error: str | None


class AuditDocumentRepairLeft(TypedDict):
    """``AuditDocumentRepairLeft`` in the document."""

    verdict: str
    path: str
    file: str | None
    reason: str
    fix: str | None


class AuditDocumentRepair(TypedDict):
    """``AuditDocumentRepair`` in the document."""

    root: str
    dryRun: bool
    steps: list[AuditDocumentRepairSteps]
    left: list[AuditDocumentRepairLeft]
    waiting: list[str]
    commands: list[str]


class AuditDocument(TypedDict):
    """What on a node differs from the plan of its pods."""

    apiVersion: Literal["qoslet/v1"]
    kind: Literal["Audit"]
    node: AuditNode
    compared: int
    cgroups: int
    unread: list[AuditDocumentUnread]
    findings: list[AuditFinding]
    notes: list[str]
    repair: NotRequired[AuditDocumentRepair]
