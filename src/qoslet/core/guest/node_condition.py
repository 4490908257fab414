"""The condition of a node that an agent writes: whether its cgroups are as planned.

Source: v1 ``NodeCondition``; kubelet pkg/kubelet/nodestatus, which leaves conditions of other types
alone; strategic merge patch, by the key ``type``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Struct

from qoslet.core.audit.finding import Finding

TYPE = "CgroupsDiffer"
PATCH_TYPE = "application/strategic-merge-patch+json"
_SAID = 3
"""How many findings a message names."""


class NodeCondition(Struct, frozen=True):
    """``True`` means that something differs, as with the kubelet's conditions of pressure."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def condition_of(findings: Sequence[Finding], *, is_complete: bool, fault: str) -> NodeCondition:
    """The condition after an audit. ``is_complete``: all pods are known; ``fault``: why the last audit
    was not done."""
    if fault:
        return NodeCondition("Unknown", "AuditFailed", fault)
    counted = [one for one in findings if one.counts]
    if counted:
        kinds = Counter(one.verdict for one in counted)
        sums = ", ".join(f"{count} {verdict}" for verdict, count in sorted(kinds.items()))
        named = [f"{one.path}{'/' + one.file if one.file else ''}" for one in counted[:_SAID]]
        more = f" and {len(counted) - _SAID} more" if len(counted) > _SAID else ""
        return NodeCondition("True", "CgroupsDiffer", f"{sums}: {', '.join(named)}{more}")
    if not is_complete:
        return NodeCondition("Unknown", "PodsUnknown", "not all pods of the node are known")
    return NodeCondition(
        "False", "CgroupsAsPlanned", "all values that qoslet compares are as planned"
    )


def condition_body(condition: NodeCondition, wall: float, *, is_transition: bool) -> bytes:
    """The patch of ``nodes/status`` that writes it, at wall-clock seconds."""
    at = datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    row = {
        "type": TYPE,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": at,
    }
    if is_transition:
        row["lastTransitionTime"] = at
    return _patch(row)


def removal_body() -> bytes:
    """The patch of ``nodes/status`` that takes it away."""
    return _patch({"$patch": "delete", "type": TYPE})


def _patch(row: dict[str, str]) -> bytes:
    return msgspec.json.encode({"status": {"conditions": [row]}})
