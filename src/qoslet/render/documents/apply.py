"""What ``apply`` and ``release`` did, as documents: kinds ``Apply`` and ``Release``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import controller

if TYPE_CHECKING:
    from qoslet.agent.one_shot import ApplyResult
    from qoslet.core.reconcile.drift import Difference
    from qoslet.core.reconcile.restore import RestoreConflict, RestorePlan
    from qoslet.core.reconcile.steps import Outcome, Step
    from qoslet.render.documents import Document


def apply_document(
    place: Mapping[str, object],
    done: ApplyResult,
    lost: Sequence[Difference],
    missing: Mapping[str, str],
    commands: Sequence[str],
) -> Document:
    """The pass for programs; ``place`` holds root, hierarchy, driver, dryRun and notes."""
    from qoslet.render.documents import API_VERSION

    counts = Counter(controller(row.file) for row in lost)
    return {
        "apiVersion": API_VERSION,
        "kind": "Apply",
        **place,
        "made": done.done("create"),
        "written": done.done("set"),
        "removed": done.done("remove"),
        "failed": [_failure(one) for one in done.failures],
        "left": [
            {
                "path": row.path,
                "file": row.file or None,
                "verdict": row.verdict,
                "wanted": row.wanted,
                "found": row.found,
                "rule": row.why or None,
            }
            for row in done.remaining
        ],
        "missing": [
            {"controller": name, "values": counts[name], "why": missing[name]}
            for name in sorted(counts)
        ],
        "skipped": list(done.before.skipped),
        "commands": list(commands),
    }


def _failure(one: Outcome) -> Document:
    step: Step = one.step
    return {
        "step": step.kind,
        "path": step.path,
        "file": step.file or None,
        "value": step.value if step.kind == "set" else None,
        "errno": one.errno_name,
        "error": one.error,
    }


def release_document(
    place: Mapping[str, object],
    what: RestorePlan,
    outcomes: Sequence[Outcome],
    commands: Sequence[str],
) -> Document:
    """The undoing for programs; ``place`` as in ``apply_document``."""
    from qoslet.render.documents import API_VERSION

    done = Counter(one.step.kind for one in outcomes if one.error is None)
    noted = place.get("notes")
    return {
        "apiVersion": API_VERSION,
        "kind": "Release",
        **place,
        "restored": done["set"],
        "removed": done["remove"],
        "refused": [_refusal(row) for row in what.refusals],
        "left": [_refusal(row) for row in what.left],
        "failed": [_failure(one) for one in outcomes if one.error is not None],
        "remarks": list(what.notes),
        "messages": [*(noted if isinstance(noted, list) else ()), *what.notes],
        "commands": list(commands),
    }


def _refusal(row: RestoreConflict) -> Document:
    return {
        "kind": row.kind,
        "path": row.path,
        "file": row.file or None,
        "ours": row.ours,
        "found": row.found,
        "before": row.before,
        "resets": row.resets or None,
        "pids": list(row.pids),
        "message": row.message,
    }
