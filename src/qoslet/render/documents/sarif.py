"""What every SARIF log has. Source: OASIS SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.render.documents import Document
from qoslet.version import VERSION

LEVELS = {"error": "error", "warning": "warning", "info": "note"}
"""Severity to SARIF's level."""


def sarif_log(command: str, rules: Sequence[Document], results: Sequence[Document]) -> Document:
    """The log of one run of a command."""
    driver = {"name": f"qoslet {command}", "version": VERSION, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
