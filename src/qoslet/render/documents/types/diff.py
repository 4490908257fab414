"""The diff document as types. Written by ``docs.generate.document_types`` from its schema."""

from __future__ import annotations

from typing import Literal, TypedDict

from qoslet.render.documents.types.rules import RuleId


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
    rules: list[RuleId | None]
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


class DiffProblem(TypedDict):
    """``DiffProblem`` in the document."""

    severity: Literal["error", "warning", "info"]
    where: str
    message: str
    hint: str


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
    problems: list[DiffProblem]
