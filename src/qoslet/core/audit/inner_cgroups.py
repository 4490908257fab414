"""The cgroups that crun makes below the scopes that it asks systemd for."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from qoslet.core.audit.live import LiveCgroup, LiveTree
from qoslet.core.cgroup.names import SCOPE
from qoslet.core.resources.cgroup_tree import Cgroup

INNER = "container"
"""The cgroup that crun makes for the processes below the scope that it asks systemd for. Source: crun
libcrun/cgroup-systemd.c find_systemd_subgroup; seen with 1.21 below containerd."""
INNER_FILES = ("memory.oom.group", "memory.swap.max")
"""Files that it writes there as planned, and not in the scope: systemd has no property of the first, and is given
memory and swap together as the second."""


def _inner_of(live: LiveTree, path: str) -> LiveCgroup | None:
    """The cgroup of crun below a scope, where it has the scope's processes."""
    inner = live.cgroups.get(f"{path}/{INNER}") if path.endswith(SCOPE) else None
    return inner if inner is not None and inner.processes else None


def with_inner(planned: Mapping[str, Cgroup], live: LiveTree) -> Mapping[str, Cgroup]:
    """The planned cgroups by their paths with those that crun made below scopes, which have the same values,
    and the files that only they have."""
    found = dict[str, Cgroup]()
    for path, cgroup in planned.items():
        found[path] = cgroup
        if (inner := _inner_of(live, path)) is not None:
            kept = tuple(one for one in cgroup.settings if one.file not in INNER_FILES)
            found[path] = replace(cgroup, settings=kept)
            found[inner.path] = replace(cgroup, path=inner.path, unit=None)
    return found


def without_inner_files(live: LiveTree) -> LiveTree:
    """The tree in which scopes of crun have nothing of ``INNER_FILES``: those below them have it."""
    scopes = [path for path in live.cgroups if _inner_of(live, path) is not None]
    if not scopes:
        return live
    cgroups = dict(live.cgroups)
    for path in scopes:
        values = cgroups[path].values
        own = {file: text for file, text in values.items() if file not in INNER_FILES}
        cgroups[path] = replace(cgroups[path], values=own)
    return replace(live, cgroups=cgroups)
