"""A bundle's cgroups and units as what an audit reads (``core.audit.live.LiveSource``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from qoslet.core.audit.finding import Unread
from qoslet.core.audit.live import LiveCgroup, LiveTree, ReadRequest, Units
from qoslet.core.bundle.rows import CgroupRow, UnitRow
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import is_at_or_below, process_leaf
from qoslet.core.node.node import PLANNED_CONTROLLERS
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.errors import CannotDo


class BundledTree:
    """The rows of a bundle. ``units`` is None where the bundle has none, ``unread`` by path and file
    why a file could not be read when the bundle was made, ``least_oom_score_adj`` what processes have
    at least, None where nothing bounds it."""

    def __init__(
        self,
        hierarchy: str,
        rows: Iterable[CgroupRow],
        units: Iterable[UnitRow] | None,
        unread: Mapping[tuple[str, str], str],
        least_oom_score_adj: int | None = None,
    ) -> None:
        self._least_oom_score_adj = least_oom_score_adj
        self._v1 = hierarchy == "v1"
        self._rows: dict[str, dict[str, CgroupRow]] = {}
        for row in rows:
            if (row.hierarchy == "v2") != self._v1:
                self._rows.setdefault(row.path, {})[row.hierarchy] = row
        seen = {name for found in self._rows.values() for name in found}
        self._controllers = seen & PLANNED_CONTROLLERS
        self._units = None if units is None else {one.unit: one.properties for one in units}
        self._unread = unread

    def __contains__(self, path: str) -> bool:
        return path in self._rows

    def read(self, request: ReadRequest) -> LiveTree:
        """The cgroups of a request."""
        wanted = {path for path in request.cgroups if path in self._rows}
        for top in request.walk:
            wanted.update(path for path in self._rows if is_at_or_below(path, top))
        found = {path: self._cgroup(path, request) for path in sorted(wanted)}
        folders = [Unread(path, "", why) for (path, file), why in self._unread.items() if not file]
        return LiveTree(found, tuple(folders), least_oom_score_adj=self._least_oom_score_adj)

    def _cgroup(self, path: str, request: ReadRequest) -> LiveCgroup:
        rows = self._rows[path]
        files = request.files.get(path, request.default)
        values, unread = {}, {}
        for file in files:
            row = rows.get(controller(file) if self._v1 else "v2")
            if row is not None and file in row.files:
                values[file] = row.files[file]
            elif (path, file) in self._unread:
                unread[file] = self._unread[path, file]
        counts = [row.processes for row in rows.values() if row.processes is not None]
        scores = [row.oom_score_adj for row in rows.values() if row.oom_score_adj]
        return LiveCgroup(
            path=path,
            identity=next((row.inode for row in rows.values() if row.inode), 0),
            values=values,
            unread=unread,
            missing=tuple(sorted(self._controllers - rows.keys())) if self._v1 else (),
            processes=max(counts, default=None),
            oom_score_adj=scores[0] if scores and request.wants_scores(path) else None,
        )

    def units(self, names: Sequence[str], properties: Iterable[str]) -> Mapping[str, Units]:
        """The properties of units. Raises CannotDo where the bundle has none."""
        if not names:
            return {}
        if self._units is None:
            raise CannotDo("the bundle has no units.jsonl")
        wanted = set(properties)
        return {
            name: {key: text for key, text in self._units[name].items() if key in wanted}
            for name in names
            if name in self._units
        }

    def with_containers(self, plan: Plan, running: Collection[tuple[str, str]]) -> Plan:
        """The plan with the paths of containers that have no ID: a cgroup of their name below their
        pod's, as qoslet makes for processes. ``running`` are pods and containers that run by their
        names: where the runtime is qoslet's, their cgroups have to be there."""
        pods = {
            cgroup.pod.uid: cgroup.path
            for cgroup in plan.cgroups
            if cgroup.level == "pod" and cgroup.pod is not None and cgroup.path is not None
        }
        if plan.node.profile.runtime.oci != "process":
            running = ()
        made = (self._completed(one, pods, running) for one in plan.cgroups)
        return replace(plan, cgroups=tuple(made))

    def _completed(
        self, cgroup: Cgroup, pods: Mapping[str, str], running: Collection[tuple[str, str]]
    ) -> Cgroup:
        if cgroup.pod is None or cgroup.container is None:
            return cgroup
        name, parent = cgroup.container.name, pods.get(cgroup.pod.uid)
        runs = (cgroup.pod.key, name) in running or cgroup.container.runs
        cgroup = replace(cgroup, container=replace(cgroup.container, runs=runs))
        if cgroup.path is not None or parent is None:
            return cgroup
        leaf = process_leaf(parent, name) if parent.endswith(".slice") else name
        path = f"{parent}/{leaf}"
        if path not in self._rows and not runs:
            return cgroup
        return replace(cgroup, path=path, unit=leaf if leaf.endswith(".scope") else None)
