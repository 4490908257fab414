"""End the processes of a group and of all below, and nobody else."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from contextlib import suppress

from qoslet.core.cgroup.names import parents
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.layout import CgroupLayout
from qoslet.host.linux.openat import MountedTree

ROUNDS = 5
WAIT_SECONDS = 2.0
"""How long members may take to leave after ``cgroup.kill``, and in each round without it."""


def members_of(tree: MountedTree, path: str) -> set[int]:
    """The processes of a group in one hierarchy; 0 is one of another PID namespace."""
    try:
        text = tree.read(path, "cgroup.procs")
    except OSError:
        return set()
    return {int(line) for line in text.split() if line.isdigit()}


def members(layout: CgroupLayout, paths: Iterable[str]) -> set[int]:
    """The processes of groups over all hierarchies."""
    found: set[int] = set()
    for path in paths:
        for tree in layout.trees:
            found |= members_of(tree, path)
    return found


def is_populated(layout: CgroupLayout, path: str) -> bool:
    """Whether any process is in a group, of whatever PID namespace: v1 lists only those of ours, but
    counts all."""
    if members(layout, [path]):
        return True
    counter = layout.tree_of("pids") if layout.name == "v1" else None
    if counter is not None:
        with suppress(OSError):
            return counter.read(path, "pids.current").strip() != "0"
    return False


def below(layout: CgroupLayout, path: str) -> list[str]:
    """The group and all below it that exist in any hierarchy, children first."""
    return sorted(identities(layout, path), key=lambda group: (-group.count("/"), group))


def identities(layout: CgroupLayout, path: str) -> dict[str, int]:
    """The same with the inode of each in the first hierarchy that has it, in no order."""
    found: dict[str, int] = {}
    for tree in reversed(layout.trees):
        found |= tree.below(path)
    return found


def kill(layout: CgroupLayout, path: str, spared: Collection[int] = ()) -> bool:
    """End every process of the group and below but ``spared``; True once no other is left.

    Raises ``CannotDo`` where PID 1 or this process is among them: then nothing is done.
    """
    return any(
        strike(layout, path, spared) or _empties(layout, path, spared) for _ in range(ROUNDS)
    )


def strike(
    layout: CgroupLayout, path: str, spared: Collection[int] = (), *, above: str | None = None
) -> bool:
    """SIGKILL to every process of the group and below but ``spared``, without waiting for any;
    True where there was none. On v1, where a frozen process does not die, all of these groups are
    thawed, and the group ``above``. Raises ``CannotDo`` like ``kill``."""
    groups = below(layout, path)
    found = members(layout, groups) - {*spared}
    if not found:
        return True
    if found & {1, os.getpid()}:
        raise CannotDo(
            "the cgroup has PID 1 or qoslet itself; nothing was killed",
            where=path,
            hint="move that process out of the cgroup first",
        )
    if spared or layout.name != "v2" or not _write(layout.trees[0], path, "cgroup.kill", "1"):
        _round(layout, path, spared)
        if layout.name == "v1":
            _thaw(layout, [*groups, *([above] if above else [])])
    return False


def frozen_above(layout: CgroupLayout, path: str) -> str | None:
    """The nearest group above that keeps the processes of a group from dying: on v1 one that is
    frozen itself. None where there is none."""
    freezer = layout.tree_of("freezer") if layout.name == "v1" else None
    if freezer is None:
        return None
    for above in parents(path):
        with suppress(OSError):
            if freezer.read(above, "freezer.self_freezing").strip() == "1":
                return above
    return None


def _thaw(layout: CgroupLayout, groups: Iterable[str]) -> None:
    """Thaw groups of v1 that were frozen by others: what is frozen does not die."""
    freezer = layout.tree_of("freezer")
    if freezer is None:
        return
    for group in groups:
        with suppress(OSError):
            if freezer.read(group, "freezer.self_freezing").strip() == "1":
                freezer.write(group, "freezer.state", "THAWED")


def _round(layout: CgroupLayout, path: str, spared: Collection[int]) -> None:
    """Freeze, SIGKILL to each member, thaw."""
    file, frozen, thawed = ("cgroup.freeze", "1", "0")
    if layout.name == "v1":
        file, frozen, thawed = ("freezer.state", "FROZEN", "THAWED")
    freezer = layout.tree_of("freezer")
    if freezer is not None:
        _write(freezer, path, file, frozen)
    try:
        _signal(layout, below(layout, path), spared)
    finally:
        if freezer is not None:
            _write(freezer, path, file, thawed)


def oom_kills(tree: MountedTree, path: str, hierarchy: str) -> int | None:
    """How many processes of a group the kernel killed for memory; None if unknown."""
    try:
        text = tree.read(path, "memory.oom_control" if hierarchy == "v1" else "memory.events")
    except OSError:
        return None
    found = [line.split()[1] for line in text.splitlines() if line.startswith("oom_kill ")]
    return int(found[0]) if found else None


def _signal(layout: CgroupLayout, groups: list[str], spared: Collection[int]) -> None:
    """SIGKILL through descriptors that were opened before membership was seen again, so a
    reused number never hits a stranger."""
    import signal

    opened: dict[int, int] = {}
    try:
        for pid in members(layout, groups) - {0, 1, os.getpid(), *spared}:
            with suppress(OSError):
                opened[pid] = os.pidfd_open(pid)
        for pid in members(layout, groups) & opened.keys():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(opened[pid], signal.SIGKILL)
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def _empties(layout: CgroupLayout, path: str, spared: Collection[int]) -> bool:
    """Whether the group and all below become empty, but for ``spared``, within ``WAIT_SECONDS``."""
    deadline = time.monotonic() + WAIT_SECONDS
    pause = 0.001
    while members(layout, below(layout, path)) - {*spared}:
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True


def _write(tree: MountedTree, path: str, file: str, value: str) -> bool:
    """Write where the kernel has the file; whether it took it."""
    try:
        tree.write(path, file, value)
    except OSError:
        return False
    return True
