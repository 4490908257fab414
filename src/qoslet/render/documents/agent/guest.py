"""The status of the agent beside a kubelet, as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.render.documents.agent.guard import guard_document
from qoslet.render.documents.audit import finding_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qoslet.core.guest.status import ContestedFile, GuestStatus, HeldFile
    from qoslet.core.guest.would_end import WouldEnd
    from qoslet.render.documents import Document


def status_document(status: GuestStatus) -> Document:
    """The document ``AgentStatus``."""
    policy, source, guard = status.policy, status.source, guard_document(status.guard)
    return {
        "apiVersion": "qoslet/v1",
        "kind": "AgentStatus",
        "node": status.node or None,
        "root": status.root,
        "hierarchy": status.hierarchy,
        "driver": status.driver,
        "mode": policy.mode,
        "memoryQos": status.memory_qos,
        "files": sorted(policy.writable),
        "evict": policy.ends,
        "namespaces": None if policy.namespaces is None else sorted(policy.namespaces),
        "pods": status.pods,
        "source": {
            "name": source.name,
            "place": source.place,
            "complete": source.complete,
            "reason": source.reason or None,
            "ageSeconds": round(source.age_seconds, 1),
            "apiRequests": source.requests,
        },
        "compared": status.compared,
        "findings": [finding_row(one) for one in status.findings],
        "held": [_held(one) for one in status.held],
        "contested": [_contested(one) for one in status.contested],
        "waiting": list(status.waiting),
        "missing": status.missing,
        "counts": {
            "syncs": status.syncs,
            "writes": status.writes,
            "rewrites": status.rewrites,
            "resets": status.resets,
            "failures": status.failures,
        },
        "guard": {name: guard[name] for name in ("decisions", "overrides")},
        "errors": list(status.errors),
        "notes": list(status.notes),
    }


def _held(one: HeldFile) -> Document:
    return {
        "cgroup": one.path,
        "file": one.file,
        "value": one.value,
        "before": one.before,
        "writer": one.writer,
        "resetBy": one.reset_by,
    }


def _contested(one: ContestedFile) -> Document:
    wait = one.retry_seconds
    return {
        "cgroup": one.path,
        "file": one.file,
        "wanted": one.wanted,
        "found": one.contest.found,
        "resets": one.contest.resets,
        "rewrites": one.contest.rewrites,
        "retrySeconds": None if wait is None else round(wait, 1),
        "resetBy": one.reset_by,
    }


def dry_run_document(commands: Sequence[str], note: str, ends: Sequence[WouldEnd]) -> Document:
    """What an agent would write and may end."""
    rows = [{"pod": one.pod, "way": one.way, "why": one.why or None} for one in ends]
    return {"commands": list(commands), "note": note or None, "ends": rows}
