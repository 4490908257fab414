"""Cgroups whose processes hang: frozen, or waiting for memory at their limit instead of being killed there.

Nothing else tells of it. Source: Documentation/admin-guide/cgroup-v2.rst, cgroup.freeze;
cgroup-v1/freezer-subsystem.rst, self_freezing (state tells of what is frozen above, too); cgroup-v1/memory.rst
10, OOM Control. A kubelet freezes nothing itself, and the CRI has no field for the OOM killer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import Finding
from qoslet.core.audit.live import LiveCgroup
from qoslet.core.audit.writers import ROOT
from qoslet.core.resources.cgroup_tree import Cgroup


class _Hang(Struct, frozen=True):
    """``told``: the file of which the first line, ``sign``, tells of it; the ``file`` that is to be ``free``
    where it is ``stuck``. ``what`` happens until then, ``who`` may want it, and why ``--fix`` leaves it."""

    told: str
    sign: str
    file: str
    stuck: str
    free: str
    what: str
    who: str
    hint: str


_FROZEN: Final = "its processes do not run until it is"
_PAUSES: Final = (
    "a program that pauses containers or makes checkpoints of them, such as ctr and runc"
)
_WORK: Final = "what froze it may be at work"
_SPEC: Final = "the OCI spec of its runtime or of a plugin, by disableOOMKiller"
_HANGS: Final = {
    "v1": (
        _Hang(
            "freezer.self_freezing", "1", "freezer.state", "FROZEN", "THAWED", _FROZEN, _PAUSES, _WORK
        ),
        _Hang(
            "memory.oom_control", "oom_kill_disable 1", "memory.oom_control", "1", "0",
            "at its limit its processes wait for memory, and none is killed, until it is", _SPEC,
            "what wrote it may answer its events by itself",
        ),
    ),
    "v2": (_Hang("cgroup.freeze", "1", "cgroup.freeze", "1", "0", _FROZEN, _PAUSES, _WORK),),
}  # fmt: skip
LEFT: Final = {one.file: one.hint for rows in _HANGS.values() for one in rows}
"""The files of findings, and why nothing repairs them."""


def hang_files(hierarchy: str) -> tuple[str, ...]:
    """The files to read."""
    return tuple(one.told for one in _HANGS[hierarchy])


def paused_findings(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Iterator[Finding]:
    """The findings about a cgroup whose processes hang."""
    for row in _HANGS[context.node.hierarchy]:
        if live.values.get(row.told, "").partition("\n")[0] != row.sign:
            continue
        message = f"{row.file} is {row.stuck}: {row.what} {row.free}"
        yield replace(
            context.finding("drift", cgroup, live.path, message),
            file=row.file,
            expected=row.free,
            found=row.stuck,
            writer="qoslet" if context.is_own else "runtime",
            may_have=(row.who, ROOT),
            reset_by="nothing resets it",
            fix=context.repair.write(live.path, row.file, row.free),
            hint=f"{row.hint}: qoslet audit --fix leaves it",
        )
