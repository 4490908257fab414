"""Compares a plan with observed cgroups, value by value.

Cgroups below a planned container belong to its processes and are not compared.
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
    """The cause of a difference."""

    PLANNED = "the plan wants another value or cgroup"
    NO_LONGER_PLANNED = "the plan does not set the file any more"


class Difference(Struct, frozen=True, gc=False):
    """A difference between the plan and a cgroup.

    ``absent``: the cgroup does not exist (``file`` is empty), or on v1 not in every hierarchy.
    ``differs``: the file holds ``found``. ``unread``: the file could not be read, ``found`` is
    None. ``surplus``: the cgroup is not planned.
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
        """The number of path components."""
        return self.path.count("/")


def _fresh(cgroup: Cgroup, path: str) -> list[Difference]:
    differences = [Difference(path, "absent", why=cgroup.level)]
    differences += [
        Difference(path, "unread", setting.file, setting.value, None, setting.rule)
        for setting in cgroup.settings
    ]
    return differences


@lru_cache(maxsize=256)
def _untouched(file: str, hierarchy: str, page: int) -> tuple[str, ...]:
    """Usual contents of a file that nobody set; ``same`` decides about others."""
    fresh = released(file, hierarchy)
    return () if fresh is None else (fresh, effective(file, fresh, page))


def _dropped(cgroup: Cgroup, path: str, observed: ObservedCgroup, node: Node) -> list[Difference]:
    """Set files that the plan does not set: they get the value of a new cgroup."""
    planned = {setting.file for setting in cgroup.settings}
    differences = []
    for file, actual in observed.values.items():
        if file in planned or actual in _untouched(file, node.hierarchy, node.host.page_size):
            continue
        fresh = released(file, node.hierarchy)
        if fresh is not None and not same(file, fresh, actual, node.host.page_size):
            why, cause = "not planned any more", Cause.NO_LONGER_PLANNED
            differences.append(Difference(path, "differs", file, fresh, actual, why, cause))
    return differences


def _values(cgroup: Cgroup, path: str, observed: ObservedCgroup, node: Node) -> list[Difference]:
    differences = []
    for setting in cgroup.settings:
        actual = observed.values.get(setting.file)
        if actual is None:
            differences.append(
                Difference(path, "unread", setting.file, setting.value, None, setting.rule)
            )
        elif actual not in (setting.applied, setting.value) and not _is_equivalent(
            setting, actual, cgroup, node
        ):
            differences.append(
                Difference(path, "differs", setting.file, setting.value, actual, setting.rule)
            )
    return differences


def _is_equivalent(setting: Setting, actual: str, cgroup: Cgroup, node: Node) -> bool:
    """Whether a file that holds ``actual`` has the value as the kernel or systemd rewrites it:
    systemd replaces a runtime's value when it writes the unit again."""
    if same(setting.file, setting.applied, actual, node.host.page_size):
        return True
    if node.driver != "systemd":
        return False
    # imported for systemd, which most machines of a plan lack
    from qoslet.core.cgroup.unit_properties import written_by_systemd

    periods = [
        int(sibling.value) for sibling in cgroup.settings if sibling.file == "cpu.cfs_period_us"
    ]
    return actual == written_by_systemd(setting.file, setting.value, *periods)


def lacking(cgroup: Cgroup, observed: ObservedCgroup | None) -> tuple[str, ...] | None:
    """The controllers of planned values in whose v1 hierarchy an existing cgroup is missing; None if
    it does not exist. Other hierarchies of a foreign cgroup do not matter: systemd creates its
    slices in some only."""
    if observed is None:
        return None
    needed = {controller(setting.file) for setting in cgroup.settings}
    return tuple(name for name in observed.missing if name in needed)


def compare(plan: Plan, observed: Observed) -> list[Difference]:
    """All differences in the plan's order; surplus cgroups last, deepest first."""
    differences: list[Difference] = []
    planned: dict[str, Cgroup] = {}
    # most cgroups have the settings and values of another one
    matching: set[tuple[int, tuple[tuple[str, str], ...]]] = set()
    for cgroup in plan.cgroups:
        path = cgroup.path
        if path is None:
            continue
        planned[path] = cgroup
        actual = observed.cgroups.get(path)
        if actual is None:
            differences += _fresh(cgroup, path)
            continue
        if actual.missing:
            differences.append(Difference(path, "absent", why=",".join(actual.missing)))
        state = id(cgroup.settings), tuple(actual.values.items())
        if state in matching:
            continue
        mismatches = _values(cgroup, path, actual, plan.node)
        mismatches += _dropped(cgroup, path, actual, plan.node)
        if mismatches:
            differences += mismatches
        else:
            matching.add(state)
    surplus = [
        path
        for path in observed.cgroups
        if path not in planned and not _inside(path, planned) and not _above(path, planned)
    ]
    surplus.sort(key=lambda path: (-path.count("/"), path))
    return differences + [Difference(path, "surplus") for path in surplus]


def _inside(path: str, planned: dict[str, Cgroup]) -> bool:
    """Whether a planned container contains ``path``."""
    while "/" in path[1:]:
        path = path.rsplit("/", 1)[0]
        cgroup = planned.get(path)
        if cgroup is not None:
            return cgroup.level == "container"
    return False


def _above(path: str, planned: dict[str, Cgroup]) -> bool:
    """Whether ``path`` is an ancestor of a planned cgroup."""
    return any(is_below(name, path) for name in planned)
