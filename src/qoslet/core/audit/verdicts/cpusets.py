"""CPUs and memory nodes of cgroups in which no plan sets them.

Source: Documentation/admin-guide/cgroup-v1/cpusets.rst, cgroup-v2.rst cpuset.cpus; runc
cgroups/fs/cpuset.go, which gives a new v1 cgroup those of its parent; kubelet cm/cpumanager
cpu_manager.go reconcileState, which under policy static gives every container a set.
"""

from __future__ import annotations

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.live import LiveCgroup
from qoslet.core.cgroup.interface_files import released


class Cpusets:
    """Those of the cgroups of an audit."""

    def __init__(self, context: AuditContext) -> None:
        self._context = context
        self._first: dict[str, int | None] = {}

    def fresh(self, live: LiveCgroup, file: str) -> str | None:
        """What a new cgroup has in any file: on v1 the cpuset of its parent. None where that is not
        known, or the cgroup has no set yet, with which no process can be in it."""
        hierarchy = self._context.node.hierarchy
        known = released(file, hierarchy)
        if known is not None or not live.values.get(file):
            return known
        above = self._context.live.cgroups.get(live.path.rpartition("/")[0])
        return (None if above is None else above.values.get(file)) or None

    def may_be_left(self, live: LiveCgroup, file: str) -> bool:
        """Whether a policy of before may have given a container its set: those that were made earlier
        have one, too."""
        if file not in self._first:
            self._first[file] = min(self._without(file), default=None)
        first = self._first[file]
        return first is None or live.identity < first

    def _without(self, file: str) -> list[int]:
        """The identities of containers without a set of their own; they rise with the time."""
        found = []
        for cgroup in self._context.plan.cgroups:
            live = self._context.live.cgroups.get(cgroup.path or "")
            if cgroup.container is None or live is None or file not in live.values:
                continue
            if live.values[file] == self.fresh(live, file):
                found.append(live.identity)
        return found
