"""A conversion as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.render.documents import API_VERSION, Document, problem_row

if TYPE_CHECKING:
    from qoslet.core.convert.convert import Conversion, ConversionRequest
    from qoslet.core.oci.result import BlockResult, Parity, Refusal, Row, Unsupported


def conversion_document(conversion: Conversion) -> Document:
    """What ``qoslet convert -o json`` prints."""
    request = conversion.request
    return {
        "apiVersion": API_VERSION,
        "kind": "Conversion",
        "from": conversion.source,
        "to": request.to,
        "hierarchy": None if request.to in ("windows", "docker") else request.hierarchy,
        "driver": None if request.to in ("windows", "docker") else request.driver,
        "isolation": _isolation(request),
        "runtime": request.runtime.name,
        "action": "create" if request.update is None else "update",
        "blocks": [_part(part) for part in conversion.parts],
        "accounting": [_lost(row) for row in conversion.accounting],
        "problems": [problem_row(row) for row in conversion.problems],
    }


def _isolation(request: ConversionRequest) -> str | None:
    """None where pods differ, and where there is none."""
    known = request.windows.isolation in ("process", "hyperv")
    return request.windows.isolation if request.to == "windows" and known else None


def _part(part: BlockResult) -> Document:
    return {
        "name": part.name or None,
        "message": part.message,
        "rows": [_row(row) for row in part.rows],
        "refused": None if part.refusal is None else _refusal(part.refusal),
        "lost": [_lost(row) for row in part.lost],
        "parity": [_parity(row) for row in part.parity],
    }


def _parity(row: Parity) -> Document:
    return {
        "what": row.what,
        "asked": row.asked,
        "verdict": row.verdict,
        "how": row.how,
        "instead": row.instead or None,
    }


def _row(row: Row) -> Document:
    found: Document = {
        "file": row.file,
        "value": row.value,
        "field": row.field,
        "rule": row.rule,
        "because": row.because,
        "source": row.source,
    }
    if row.effective is not None and row.effective != row.value:
        found["effective"] = row.effective
    return found


def _refusal(refusal: Refusal) -> Document:
    return {
        "field": refusal.field,
        "file": refusal.file,
        "by": refusal.by,
        "message": refusal.message,
        "rule": refusal.rule,
        "because": refusal.because,
        "source": refusal.source,
    }


def _lost(row: Unsupported) -> Document:
    return {
        "what": row.what,
        "field": row.field,
        "fate": row.fate,
        "why": row.why,
        "instead": row.instead,
    }
