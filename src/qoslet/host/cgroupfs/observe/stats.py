"""Statistics of pods and containers in the shape of the CRI's, read from their groups."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.usage.stats import FILES_V1, FILES_V2, processes, usage, with_rate
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.cgroupfs.mounted import required_mounts

Cpus = dict[str, Mapping[str, Any]]
"""The ``cpu`` of each group, by path."""


class CgroupStats:
    """The groups of this machine, for reading. Raises ``CannotDo`` where there are none."""

    def __init__(self) -> None:
        hierarchy, points = required_mounts()
        self.v2 = hierarchy == "v2"
        self._layout = layout_of(hierarchy, points)

    def usage(self, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """``cpu``, ``memory``, ``swap`` and ``io`` of a group, and ``process``; empty where it is
        gone."""
        files = {}
        for name in FILES_V2 if self.v2 else FILES_V1:
            tree = self._layout.tree_of(controller(name))
            if tree is None:
                continue
            try:
                files[name] = tree.read(path, name)
            except OSError:
                continue
        now = time.time_ns()
        return usage(files, self.v2, now), processes(files, now)

    def close(self) -> None:
        """Close every descriptor."""
        for tree in self._layout.trees:
            tree.close()


def stats(items: Sequence[Mapping[str, Any]], seconds: float) -> list[dict[str, Any]]:
    """A ``PodSandboxStats`` for each of these pods of a ``PodStates`` document that has running
    containers; rates are over ``seconds``. Raises ``CannotDo``."""
    groups = CgroupStats()
    try:
        before: Cpus = {}
        for item in items:
            _pod(groups, item, {}, before)
        if before:
            time.sleep(seconds)
        made = (_pod(groups, item, before, {}) for item in items)
        return [one for one in made if one is not None]
    finally:
        groups.close()


def _pod(
    groups: CgroupStats, item: Mapping[str, Any], before: Cpus, seen: Cpus
) -> dict[str, Any] | None:
    """One pod; None where nothing of it runs. ``seen`` gathers the CPU times."""
    rows = [one for one in item["containers"] if one["cgroup"] and one["running"]]
    if not rows:
        return None
    containers = []
    for row in rows:
        found, _ = groups.usage(row["cgroup"])
        name = {"metadata": {"name": row["name"], "attempt": row["restarts"]}}
        id = row["cgroup"].rpartition("/")[2]
        _rated(found, row["cgroup"], before, seen)
        containers.append({"attributes": {"id": id, **name}, **found})
    above = rows[0]["cgroup"].rpartition("/")[0]
    whole, count = groups.usage(above)
    _rated(whole, above, before, seen)
    # the CRI tells no swap of a pod as a whole
    whole.pop("swap", None)
    names = {key: item[key] for key in ("name", "uid", "namespace")}
    linux = {**whole, **count, "containers": containers}
    return {"attributes": {"id": item["uid"], "metadata": names}, "linux": linux}


def _rated(found: dict[str, Any], path: str, before: Cpus, seen: Cpus) -> None:
    if "cpu" in found:
        seen[path] = found["cpu"]
        found["cpu"] = with_rate(found["cpu"], before.get(path))
