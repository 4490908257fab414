"""Cgroups whose processes are frozen: they hang, and nothing else tells of it.

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup.freeze. A kubelet freezes nothing itself.
"""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import Finding
from qoslet.core.audit.live import LiveCgroup
from qoslet.core.resources.cgroup_tree import Cgroup

FREEZE = "cgroup.freeze"
"""The v2 file; 1 freezes what is below, too."""


def paused_finding(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Finding | None:
    """The finding about a frozen cgroup."""
    if live.values.get(FREEZE) != "1":
        return None
    message = f"{FREEZE} is 1: its processes do not run until it is 0"
    finding = context.finding("drift", cgroup, live.path, message)
    return replace(
        finding,
        file=FREEZE,
        expected="0",
        found=live.values[FREEZE],
        writer="qoslet" if context.is_own else "runtime",
        may_have=(
            "a program that pauses containers or makes checkpoints of them, such as ctr and runc",
            "a process with root's rights that wrote the file",
        ),
        reset_by="nothing resets it",
        fix=context.repair.write(live.path, FREEZE, "0"),
        hint="what froze it may be at work: qoslet audit --fix leaves it",
    )
