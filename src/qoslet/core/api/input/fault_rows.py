"""What is wrong with a file of manifests, as rows."""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.core.problem import Problem
from qoslet.errors import BadInput

FAULTS_TOLD = 10
"""Faults of one file that get a row; the rest is counted."""


def fault_rows(file: str, faults: Sequence[BadInput], *, has_pods: bool) -> list[Problem]:
    """The faults of a file; ``has_pods``: it was good before, and its pods stay."""
    unchanged = "its pods keep running unchanged" if has_pods else ""
    rows = [
        Problem(
            "error", fault.where, fault.message, "; ".join(filter(None, (fault.hint, unchanged)))
        )
        for fault in faults[:FAULTS_TOLD]
    ]
    more = len(faults) - FAULTS_TOLD
    if more > 0:
        rows.append(Problem("error", file, f"{more} more faults", "fix the first ones"))
    return rows


def fault_of(where: str, faults: Sequence[BadInput]) -> str:
    """The fault that is about the pod at ``where``, else the file's first one."""
    own = (fault for fault in faults if fault.where.startswith(where))
    fault = next(own, faults[0])
    return ": ".join(filter(None, (fault.where, fault.message)))
