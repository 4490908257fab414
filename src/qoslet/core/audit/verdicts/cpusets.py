"""CPUs and memory nodes of cgroups in which no plan sets them.

Source: Documentation/admin-guide/cgroup-v1/cpusets.rst, cgroup-v2.rst cpuset.cpus; runc
cgroups/fs/cpuset.go, which gives a new v1 cgroup those of its parent; kubelet cm/cpumanager
cpu_manager.go reconcileState, which under policy static gives every container a set; Linux
kernel/cgroup/cpuset.c validate_change (ENOSPC), on v2 until commit 272bd8183376 of 7.0.
"""

from __future__ import annotations

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.live import LiveCgroup
from qoslet.core.audit.verdicts.left_behind import CPUSETS
from qoslet.core.cgroup.interface_files import cpu_numbers, joined, released
from qoslet.core.cgroup.names import parents
from qoslet.core.node.host_facts import kernel_version
from qoslet.core.node.node import Node
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Cgroup

UNCLEARED = "kernels before 7.0 take no set away while processes run"
_CLEARED_SINCE = (7, 0)


def can_be_cleared(node: Node) -> bool:
    """Whether the kernel takes a set away while processes run."""
    kernel = kernel_version(node.host.kernel)
    return node.hierarchy == "v2" and kernel is not None and kernel >= _CLEARED_SINCE


class Cpusets:
    """The CPU and memory node sets of the cgroups of an audit."""

    def __init__(self, context: AuditContext) -> None:
        self._context = context
        self._first: dict[str, int | None] = {}

    def fresh(self, live: LiveCgroup, file: str) -> str | None:
        """The value of a file that nothing has set; None if it is not known. A v1 cgroup begins with the set
        of its parent, so a set is compared with that of the nearest cgroup above that has one. On v2 a
        cgroup without a set may use all that its parent may, but the kernel takes no set away while
        processes run: then the set of all CPUs or nodes of the machine stands for none."""
        known = released(file, self._context.node.hierarchy)
        if file not in CPUSETS or not live.values.get(file):
            return known
        for path in (*parents(live.path), "/"):
            above = self._context.live.cgroups.get(path)
            if above is not None and above.values.get(file):
                return above.values[file]
        every = _whole(self._context.node, file)
        # where v1 does not tell what is above, a set may be its administrator's
        is_kept = known is not None and not can_be_cleared(self._context.node)
        return every if every and (is_kept or live.values[file] == every) else known

    def may_be_left(self, cgroup: Cgroup, live: LiveCgroup, file: str) -> bool:
        """Whether an earlier policy may have given a container its set: the set has as many CPUs as the
        container would get exclusively, or containers that were created earlier have a set as well."""
        if file == "cpuset.cpus" and _is_exclusive(cgroup, live.values[file]):
            return True
        if file not in self._first:
            self._first[file] = min(self._without(file), default=None)
        first = self._first[file]
        return first is None or live.identity < first

    def _without(self, file: str) -> list[int]:
        """The identities of containers without a set; later cgroups have higher ones."""
        found = []
        for cgroup in self._context.plan.cgroups:
            live = self._context.live.cgroups.get(cgroup.path or "")
            if cgroup.container is None or live is None or file not in live.values:
                continue
            if live.values[file] in ("", self.fresh(live, file)):
                found.append(live.identity)
        return found


def _whole(node: Node, file: str) -> str | None:
    """All CPUs or memory nodes of a machine; None where they are not known."""
    return node.host.cpus if file == "cpuset.cpus" else joined(one.id for one in node.host.numa)


def _is_exclusive(cgroup: Cgroup, cpus: str) -> bool:
    """Whether the static CPU manager gives a container so many CPUs. Source: kubelet
    cm/cpumanager policy_static.go guaranteedCPUs."""
    if cgroup.container is None:
        return False
    resources = cgroup.container.resources
    asked = resources.requests.get("cpu", ZERO)
    is_whole = asked.milli > 0 and asked.milli % 1000 == 0
    is_equal = asked == resources.limits.get("cpu")
    return is_whole and is_equal and len(cpu_numbers(cpus)) * 1000 == asked.milli
