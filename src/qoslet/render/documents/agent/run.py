"""What a run came to, as a document: ``kind: Run`` of ``qoslet/v1``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qoslet.render.documents import API_VERSION, Document, problem_row
from qoslet.render.documents.agent.pods import container_row

if TYPE_CHECKING:
    from qoslet.core.problem import Problem
    from qoslet.core.status.run_outcome import PodOutcome, RunOutcome


def run_document(outcome: RunOutcome, root: str, problems: Iterable[Problem]) -> Document:
    """Every pod with its result, why the run stopped, and its exit code."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Run",
        "root": root,
        "exitCode": outcome.exit_code,
        "stoppedBy": outcome.cause.value,
        "pods": [_pod(one) for one in outcome.pods],
        "problems": [problem_row(row) for row in problems],
    }


def _pod(outcome: PodOutcome) -> Document:
    row = outcome.pod
    return {
        "namespace": row.namespace,
        "name": row.name,
        "uid": row.uid,
        "qosClass": row.qos,
        "result": outcome.result,
        "why": outcome.why or None,
        "phase": row.phase,
        "status": row.status,
        "reason": row.reason or None,
        "message": row.message or None,
        "containers": [container_row(state, row) for state in row.containers],
    }
