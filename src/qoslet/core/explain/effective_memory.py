"""Sentences about the effective memory settings of a plan."""

from __future__ import annotations

from typing import Literal

from qoslet.core.cgroup.interface_files import PROTECTION, UNLIMITED
from qoslet.core.memory.effective_protection import Overcommit
from qoslet.core.plan.effective_memory import FullNodeCgroup
from qoslet.core.plan.full_node import Limit
from qoslet.core.resources.cgroup_tree import named

LIMITING = ("memory.high", "memory.max")

_FULL = "when the node is full"


def sentence(standing: FullNodeCgroup, file: str) -> str | None:
    """The effect of ``file`` of a cgroup; None if the file has none."""
    if file in PROTECTION:
        return _protection(standing, file)
    return _limit(standing, file) if file in LIMITING else None


def loss(standing: FullNodeCgroup, file: str) -> str | None:
    """The effective value in short, if it is less than the setting."""
    if file not in PROTECTION or not standing.lost(file):
        return None
    return f"effective {standing.kept(file)}{because(standing, file)}"


def because(standing: FullNodeCgroup, file: str) -> str:
    """Why the effective value is less: an ancestor protects less, or a limit keeps the cgroup from
    using as much."""
    cut, limit = standing.cut.get(file), standing.limit
    if cut is not None and standing.kept(file) < min(standing.claimed(file), standing.claim.usage):
        return f": {held(cut)}"
    return "" if limit is None else f": {room(limit)}"


def held(cut: Overcommit) -> str:
    """How much an ancestor protects of its children's claims."""
    if cut.held == 0:
        return f"{cut.path} has no {cut.file}"
    return f"{cut.path} holds {cut.held} of {cut.claimed} that its children claim"


def room(limit: Limit) -> str:
    """The limit for all cgroups below it."""
    if not limit.path:
        return f"the machine has {limit.value}"
    return f"memory.max of {named(limit.path)} is {limit.value}"


def _protection(standing: FullNodeCgroup, file: str) -> str | None:
    value = standing.claim.min if file == "memory.min" else standing.claim.low
    kept = standing.kept(file)
    if not value:
        return f"{kept} {_FULL}: from the parent, by memory_recursiveprot" if kept else None
    if standing.lost(file):
        return f"{kept} of {value} {_FULL}{because(standing, file)}"
    return (
        f"all of it {_FULL}" if kept >= value else f"{kept} of {value} {_FULL}: all memory in use"
    )


def _limit(
    standing: FullNodeCgroup, file: Literal["memory.high", "memory.max"] | str
) -> str | None:
    value = standing.claim.high if file == "memory.high" else standing.claim.max
    first = standing.binds
    if first is None or value >= UNLIMITED:
        return None
    if first.file == file and first.path == standing.claim.path:
        return "the lowest limit from here to the root"
    place = "" if first.path == standing.claim.path else f" of {first.path}"
    return f"{first.file}{place} is lower: {first.limit}"
