"""Lifts what keeps a pod from ending: what another process wrote into its cgroups, and a memory limit that
is all used where it should have ended.

What ends a container runs beside it in the pod's cgroup: a shim, and the runtime that it calls.
Frozen, throttled at ``memory.high``, without memory, a PID or CPU time, these do not get to it.

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/freezer-subsystem.rst; runc libcontainer
init_linux.go (signalAllProcesses).
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from qoslet.core.cgroup.interface_files import released
from qoslet.core.cgroup.names import is_at_or_below, parents
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.kill import below

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from qoslet.core.reconcile.journal import JournalState
    from qoslet.host.cgroupfs.layout import CgroupLayout

_FREEZERS = {
    "v2": ("cgroup.freeze", "cgroup.freeze", "0"),
    "v1": ("freezer.self_freezing", "freezer.state", "THAWED"),
}
"""The file that holds 1 where a cgroup is frozen itself, and what to write where to thaw it."""
_MEMORY, _PIDS, _CPUS = float(16 << 20), 16.0, 0.05
"""What a runtime needs to end a container: bytes and PIDs beyond what is used, and CPUs."""
_LIMITS = {
    "v2": (
        ("memory.high", "memory.current", _MEMORY),
        ("memory.max", "memory.current", _MEMORY),
        ("pids.max", "pids.current", _PIDS),
        ("cpu.max", "", _CPUS),
    ),
    "v1": (
        ("memory.limit_in_bytes", "memory.usage_in_bytes", _MEMORY),
        ("pids.max", "pids.current", _PIDS),
        ("cpu.cfs_quota_us", "", _CPUS),
    ),
}
"""Limits, the file of what is used of each, and how much has to be left."""
_HARD_LIMITS = ("memory.max", "memory.limit_in_bytes")
_UNLIMITED = 1 << 62
"""Bytes from which on a limit of v1 holds nobody back."""


class _Driver(Protocol):
    layout: CgroupLayout

    def do_unrecorded(self, step: Step) -> str | None:
        """One step; what went wrong, None if it is done."""


def lift(
    driver: _Driver,
    ledger: JournalState,
    path: str,
    pods: Collection[str] | None = None,
    *,
    frozen: set[str],
    widened: set[str],
    overdue: bool = False,
) -> list[str]:
    """Thaw a cgroup and all below it that the look before found frozen, too (``frozen``, which is kept
    up to date): a runtime freezes a container for a moment while it kills its processes. In those of
    ours, put limits that leave nothing to work with back to what we wrote last, and those that we never
    wrote to the kernel's default. Where what should have ended is ``overdue``, a memory limit that is all
    used is widened a little, once (``widened``): nobody knows whether it was killed yet. ``pods`` are the
    cgroups of the pods that are to end, where others have theirs below ``path``, too: what is neither ours
    nor in a pod stays frozen. Returns a line for each; what cannot be written stays."""
    lines = []
    for group in reversed(below(driver.layout, path)):
        inode = driver.layout.trees[0].identity(group)
        is_ours = inode is not None and ledger.is_owned(group, inode)
        in_pod = pods is None or any(is_at_or_below(group, pod) for pod in pods)
        if not (is_ours or in_pod) or not _is_frozen(driver.layout, group):
            frozen.discard(group)
        elif group not in frozen:
            frozen.add(group)
        elif _thaw(driver.layout, group):
            frozen.discard(group)
            lines.append(f"{group}: it was frozen, which kept it from ending; thawed it")
        limits = list(_exhausted(driver.layout, ledger, group)) if is_ours else []
        if not overdue:
            widened.discard(group)
        elif (is_ours or in_pod) and not limits:
            limits += _full(driver.layout, ledger, group, widened)
        for file, found, wanted in limits:
            if driver.do_unrecorded(Step("set", group, file, wanted)) is None:
                lines.append(
                    f"{group}: its {file} of {found} kept it from ending; set it to {wanted}"
                )
    return lines


def lifting(driver: _Driver, ledger: JournalState) -> Callable[..., list[str]]:
    """``lift`` with what it has to know from one look to the next."""
    return partial(lift, driver, ledger, frozen=set[str](), widened=set[str]())


def frozen_at(layout: CgroupLayout, paths: Iterable[str]) -> dict[str, str]:
    """The cgroups whose processes do not run, each with the topmost one that is frozen, which may be
    itself: below a frozen slice systemd freezes each unit, and thaws none of them alone."""
    known: dict[str, bool] = {}

    def is_frozen(group: str) -> bool:
        if group not in known:
            known[group] = _is_frozen(layout, group)
        return known[group]

    found = {path: [*filter(is_frozen, (path, *parents(path)))] for path in paths}
    return {path: groups[-1] for path, groups in found.items() if groups}


def _is_frozen(layout: CgroupLayout, group: str) -> bool:
    """Whether a cgroup is frozen itself."""
    return _read(layout, group, _FREEZERS[layout.name][0]) == "1"


def _thaw(layout: CgroupLayout, group: str) -> bool:
    """Thaw a cgroup; whether it was done."""
    _, file, thawed = _FREEZERS[layout.name]
    tree = layout.tree_of(file.partition(".")[0])
    if tree is None:
        return False
    try:
        tree.write(group, file, thawed)
    except OSError:
        return False
    return True


def _exhausted(
    layout: CgroupLayout, ledger: JournalState, group: str
) -> Iterator[tuple[str, str, str]]:
    """Limits of a cgroup of ours that are not as we wrote them and leave too little: the file, what it
    holds and what it should."""
    for file, usage, needed in _LIMITS[layout.name]:
        found, key = _read(layout, group, file), (group, file)
        ours = ledger.possible_values(key) if key in ledger.files else ()
        if not found or found in ours:
            continue
        period = _read(layout, group, "cpu.cfs_period_us") if file == "cpu.cfs_quota_us" else ""
        left = _amount(f"{found} {period}".strip())
        if ours and file in _HARD_LIMITS and left >= _amount(ours[0]):
            continue
        left -= int(_read(layout, group, usage) or 0) if usage else 0
        if left < needed:
            yield file, found, ours[0] if ours else released(file, layout.name) or "max"


def _full(
    layout: CgroupLayout, ledger: JournalState, group: str, widened: set[str]
) -> Iterator[tuple[str, str, str]]:
    """The memory limit of a cgroup that is all used, as ``_exhausted``, and one that leaves a little: where it
    is as we wrote it, or the first time. Who is killed in it looks for memory first, over and over where page
    cache cannot be taken, and a runtime that is charged to it waits for that, too. Source: mm/memcontrol.c
    try_charge_memcg."""
    for file, usage, needed in _LIMITS[layout.name]:
        key = (group, file)
        ours = ledger.possible_values(key) if key in ledger.files else ()
        found = _read(layout, group, file) if usage and file in _HARD_LIMITS else ""
        if not found or (found not in ours if ours else group in widened):
            continue
        used = int(_read(layout, group, usage) or 0)
        if _amount(found) - used < needed / 8:
            widened.add(group)
            yield file, found, str(used + int(needed))


def _read(layout: CgroupLayout, group: str, file: str) -> str:
    """A file's text; empty where it is not there."""
    tree = layout.tree_of(file.partition(".")[0])
    if tree is not None:
        with suppress(OSError):
            return tree.read(group, file).strip()
    return ""


def _amount(text: str) -> float:
    """What a limit allows, infinite where it is none; of a quota with its period the CPUs."""
    first, _, period = text.partition(" ")
    if first in ("max", "-1"):
        return math.inf
    amount = int(first)
    return math.inf if amount >= _UNLIMITED else amount / int(period or 1)
