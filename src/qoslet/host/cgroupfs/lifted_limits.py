"""Lifts what another process wrote into a pod's cgroups so that the pod cannot end.

What ends a container runs beside it in the pod's cgroup: a shim, and the runtime that it calls.
Frozen, throttled at ``memory.high``, without a PID or CPU time, these do not get to it.

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/freezer-subsystem.rst.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from qoslet.core.cgroup.interface_files import released
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.kill import below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qoslet.core.reconcile.journal import JournalState
    from qoslet.host.cgroupfs.layout import CgroupLayout

_FREEZERS = {
    "v2": ("cgroup.freeze", "cgroup.freeze", "0"),
    "v1": ("freezer.self_freezing", "freezer.state", "THAWED"),
}
"""The file that holds 1 where a cgroup is frozen itself, and what to write where to thaw it."""
_LIMITS = {
    "v2": ("memory.high", "memory.max", "pids.max", "cpu.max"),
    "v1": ("memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us"),
}
_UNLIMITED = 1 << 62
"""Bytes from which on a limit of v1 holds nobody back."""


class _Driver(Protocol):
    layout: CgroupLayout

    def do_unrecorded(self, step: Step) -> str | None:
        """One step; what went wrong, None if it is done."""


def lift(driver: _Driver, ledger: JournalState, path: str) -> list[str]:
    """Thaw a cgroup and all below it. In those of ours, put limits that are tighter than what we
    wrote last back to that, and those that we never wrote to the kernel's default. Returns a line for
    each; what cannot be written stays."""
    lines = []
    for group in reversed(below(driver.layout, path)):
        if _thaw(driver.layout, group):
            lines.append(f"{group}: another process froze it, so it could not end; thawed it")
        for file, found, wanted in _tightened(driver.layout, ledger, group):
            if driver.do_unrecorded(Step("set", group, file, wanted)) is None:
                lines.append(
                    f"{group}: another process set {file} to {found}, so it could not end; set it to {wanted}"
                )
    return lines


def _thaw(layout: CgroupLayout, group: str) -> bool:
    """Thaw a cgroup that is frozen itself; whether it was."""
    frozen, file, thawed = _FREEZERS[layout.name]
    tree = layout.tree_of(file.partition(".")[0])
    if tree is None or _read(layout, group, frozen) != "1":
        return False
    try:
        tree.write(group, file, thawed)
    except OSError:
        return False
    return True


def _tightened(
    layout: CgroupLayout, ledger: JournalState, group: str
) -> Iterator[tuple[str, str, str]]:
    """Files of a cgroup of ours that are tighter than they should be: what they hold, and what they
    should."""
    inode = layout.trees[0].identity(group)
    if inode is None or not ledger.is_owned(group, inode):
        return
    for file in _LIMITS[layout.name]:
        found = _read(layout, group, file)
        key = group, file
        ours = ledger.possible_values(key) if key in ledger.files else ()
        if not found or found in ours:
            continue
        wanted = ours[0] if ours else released(file, layout.name) or "max"
        if _amount(found) < _amount(wanted):
            yield file, found, wanted


def _read(layout: CgroupLayout, group: str, file: str) -> str:
    """A file's text; empty where it is not there."""
    tree = layout.tree_of(file.partition(".")[0])
    if tree is not None:
        with suppress(OSError):
            return tree.read(group, file).strip()
    return ""


def _amount(text: str) -> float:
    """What a limit leaves, infinite where it is none; of ``cpu.max`` the CPUs."""
    first, _, period = text.partition(" ")
    if first in ("max", "-1"):
        return math.inf
    amount = int(first)
    return math.inf if amount >= _UNLIMITED else amount / int(period or 1)
