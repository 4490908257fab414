"""Cgroups whose processes are frozen: they hang, and nothing else tells of it.

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup.freeze; cgroup-v1/freezer-subsystem.rst,
self_freezing (state tells of what is frozen above, too). A kubelet freezes nothing itself.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import Finding
from qoslet.core.audit.live import LiveCgroup
from qoslet.core.audit.writers import ROOT
from qoslet.core.resources.cgroup_tree import Cgroup


class _Freezer(Struct, frozen=True):
    """The file that tells whether a cgroup itself is frozen, by 1, and how its processes run again."""

    told: str
    file: str
    frozen: str
    thawed: str


_FREEZERS: Final = {
    "v1": _Freezer("freezer.self_freezing", "freezer.state", "FROZEN", "THAWED"),
    "v2": _Freezer("cgroup.freeze", "cgroup.freeze", "1", "0"),
}
FREEZE: Final = tuple(one.file for one in _FREEZERS.values())
"""The files of findings."""


def freeze_file(hierarchy: str) -> str:
    """The file to read."""
    return _FREEZERS[hierarchy].told


def paused_finding(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Finding | None:
    """The finding about a frozen cgroup."""
    freezer = _FREEZERS[context.node.hierarchy]
    if live.values.get(freezer.told) != "1":
        return None
    file, thawed = freezer.file, freezer.thawed
    message = f"{file} is {freezer.frozen}: its processes do not run until it is {thawed}"
    finding = context.finding("drift", cgroup, live.path, message)
    return replace(
        finding,
        file=file,
        expected=thawed,
        found=freezer.frozen,
        writer="qoslet" if context.is_own else "runtime",
        may_have=(
            "a program that pauses containers or makes checkpoints of them, such as ctr and runc",
            ROOT,
        ),
        reset_by="nothing resets it",
        fix=context.repair.write(live.path, file, thawed),
        hint="what froze it may be at work: qoslet audit --fix leaves it",
    )
