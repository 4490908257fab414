"""What is off: a plan against what was read, value by value.

Groups below a planned container belong to what runs in it and are never compared.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.accepts import effective, same
from qoslet.core.cgroup.interface_files import controller, released
from qoslet.core.cgroup.names import is_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.node import Node
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, Setting

Verdict = Literal["absent", "differs", "unread", "surplus"]


class Cause(Enum):
    """What a difference comes from."""

    PLANNED = "the plan wants another value or cgroup"
    NO_LONGER_PLANNED = "the plan does not set the file any more"


class Difference(Struct, frozen=True, gc=False):
    """One thing that is not as planned.

    ``absent``: the group is not there (``file`` is empty), or on v1 not in every hierarchy.
    ``differs``: the file holds ``found``. ``unread``: the file could not be read, ``found`` is
    None. ``surplus``: the group is not planned. ``depth`` counts path components.
    """

    path: str
    verdict: Verdict
    file: str = ""
    wanted: str | None = None
    found: str | None = None
    why: str = ""
    cause: Cause = Cause.PLANNED

    @property
    def depth(self) -> int:
        """How far below the hierarchy's root the group is."""
        return self.path.count("/")


def _fresh(group: Cgroup, path: str) -> list[Difference]:
    rows = [Difference(path, "absent", why=group.level)]
    rows += [
        Difference(path, "unread", row.file, row.value, None, row.rule) for row in group.settings
    ]
    return rows


@lru_cache(maxsize=256)
def _untouched(file: str, hierarchy: str, page: int) -> tuple[str, ...]:
    """What a file mostly holds where nobody set it; ``same`` decides about all else."""
    fresh = released(file, hierarchy)
    return () if fresh is None else (fresh, effective(file, fresh, page))


def _dropped(group: Cgroup, path: str, seen: ObservedCgroup, node: Node) -> list[Difference]:
    """Values that somebody set and the plan does not: they go back to a fresh group's."""
    planned = {row.file for row in group.settings}
    rows = []
    for file, found in seen.values.items():
        if file in planned or found in _untouched(file, node.hierarchy, node.host.page_size):
            continue
        fresh = released(file, node.hierarchy)
        if fresh is not None and not same(file, fresh, found, node.host.page_size):
            why, cause = "not planned any more", Cause.NO_LONGER_PLANNED
            rows.append(Difference(path, "differs", file, fresh, found, why, cause))
    return rows


def _values(group: Cgroup, path: str, seen: ObservedCgroup, node: Node) -> list[Difference]:
    rows = []
    for row in group.settings:
        found = seen.values.get(row.file)
        if found is None:
            rows.append(Difference(path, "unread", row.file, row.value, None, row.rule))
        elif found not in (row.applied, row.value) and not _stands(row, found, group, node):
            rows.append(Difference(path, "differs", row.file, row.value, found, row.rule))
    return rows


def _stands(row: Setting, found: str, group: Cgroup, node: Node) -> bool:
    """Whether the answer is what the value becomes: with the kernel, or with systemd, whose own
    form takes the place of a runtime's when it writes the unit again."""
    if same(row.file, row.applied, found, node.host.page_size):
        return True
    if node.driver != "systemd":
        return False
    # imported for systemd, which the most have not
    from qoslet.core.cgroup.unit_properties import left

    periods = [int(one.value) for one in group.settings if one.file == "cpu.cfs_period_us"]
    return found == left(row.file, row.value, *periods)


def lacking(group: Cgroup, seen: ObservedCgroup | None) -> tuple[str, ...] | None:
    """The controllers that planned values need and in whose v1 hierarchy an existing group is
    absent; None where it is absent everywhere. What a group of others lacks besides is no matter:
    systemd makes its slices in some hierarchies only."""
    if seen is None:
        return None
    needed = {controller(row.file) for row in group.settings}
    return tuple(name for name in seen.missing if name in needed)


def compare(plan: Plan, observed: Observed) -> list[Difference]:
    """Everything that is off, in the plan's order; surplus groups last, deepest first."""
    rows: list[Difference] = []
    planned: dict[str, Cgroup] = {}
    # most groups have the settings of another one and hold the same values
    right: set[tuple[int, tuple[tuple[str, str], ...]]] = set()
    for group in plan.cgroups:
        path = group.path
        if path is None:
            continue
        planned[path] = group
        seen = observed.cgroups.get(path)
        if seen is None:
            rows += _fresh(group, path)
            continue
        if seen.missing:
            rows.append(Difference(path, "absent", why=",".join(seen.missing)))
        alike = id(group.settings), tuple(seen.values.items())
        if alike in right:
            continue
        wrong = _values(group, path, seen, plan.node)
        wrong += _dropped(group, path, seen, plan.node)
        if wrong:
            rows += wrong
        else:
            right.add(alike)
    surplus = [
        path
        for path in observed.cgroups
        if path not in planned and not _inside(path, planned) and not _above(path, planned)
    ]
    surplus.sort(key=lambda path: (-path.count("/"), path))
    return rows + [Difference(path, "surplus") for path in surplus]


def _inside(path: str, planned: dict[str, Cgroup]) -> bool:
    """Whether a planned container contains ``path``."""
    while "/" in path[1:]:
        path = path.rsplit("/", 1)[0]
        group = planned.get(path)
        if group is not None:
            return group.level == "container"
    return False


def _above(path: str, planned: dict[str, Cgroup]) -> bool:
    """Whether ``path`` is an ancestor of a planned group: the root that the owner named."""
    return any(is_below(name, path) for name in planned)
