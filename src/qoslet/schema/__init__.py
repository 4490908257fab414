"""The published JSON Schemas (draft 2020-12) of every ``-o json`` output, by kind.

One file for each of ``NAMES`` lies in this package.
"""

from __future__ import annotations

import os

NAMES = (
    "plan",
    "explanation",
    "diff",
    "lint",
    "fleet",
    "top",
    "replay",
    "cri",
    "oci",
    "audit",
    "apply",
    "release",
    "config",
    "doctor",
    "conversion",
    "podstates",
    "podstats",
    "run",
    "nodeview",
    "podview",
    "agentstatus",
)


def text(name: str) -> str:
    """The schema of a kind (one of ``NAMES``) as JSON text; KeyError for another name."""
    if name not in NAMES:
        raise KeyError(name)
    path = os.path.join(os.path.dirname(__file__), f"{name}.json")
    with open(path, encoding="utf-8") as file:
        return file.read()
