"""The conversion document as types. Written by ``docs.generate.document_types`` from its schema."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from qoslet.render.documents.types.rules import RuleId


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
    rule: RuleId
    because: str
    source: str
    effective: NotRequired[str]


class ConversionRefusal(TypedDict):
    """``ConversionRefusal`` in the document."""

    field: str
    file: str | None
    by: Literal["runtime", "kernel"]
    message: str
    rule: RuleId
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
