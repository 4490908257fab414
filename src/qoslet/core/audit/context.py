"""What every comparison of one audit needs: the plan, its node, the tree that was read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.audit.finding import SEVERITIES, Finding, Verdict
from qoslet.core.audit.live import LiveTree, Units
from qoslet.core.audit.repair import Repair
from qoslet.core.audit.writers import Ownership, level_of, ownership
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import released
from qoslet.core.cgroup.names import concrete, root_of, to_cgroupfs
from qoslet.core.node.node import Node
from qoslet.core.problem import Severity
from qoslet.core.reconcile.file_writers import Level
from qoslet.core.resources.cgroup_tree import Cgroup, Plan


class AuditContext(Struct, frozen=True):
    """The plan and what was read. ``units`` holds the properties of units by name."""

    plan: Plan
    live: LiveTree
    units: Mapping[str, Units]
    repair: Repair

    @property
    def node(self) -> Node:
        """The node."""
        return self.plan.node

    @property
    def root(self) -> str:
        """The abstract name of the cgroup of all pods."""
        kubelet = self.node.kubelet
        return _root(kubelet.cgroup_root, kubelet.cgroups_per_qos)

    @property
    def root_path(self) -> str:
        """Its path."""
        return concrete(self.node.kubelet.pods_cgroup, self.node.driver)

    @property
    def is_own(self) -> bool:
        """Whether qoslet itself runs the pods: no kubelet writes there."""
        return self.node.profile.runtime.is_own

    @property
    def strays(self) -> bool:
        """Whether a CRI runtime makes scopes of containers, which may be set up without systemd."""
        return self.node.driver == "systemd" and not self.is_own

    def on_its_way(self, pod: Pod | None) -> str:
        """What happens to a pod, so that cgroups, controllers and processes of it may be missing;
        empty where nothing does."""
        if pod is not None and pod.phase == "Pending":
            return "the pod is being started"
        # qoslet ends pods whose manifests go, whatever those say
        leaves = pod is not None and pod.is_leaving and not self.is_own
        return "the pod is being deleted" if leaves else ""

    def level(self, cgroup: Cgroup) -> Level:
        """The level of a planned cgroup in the table of writers."""
        return level_of(cgroup, self.root)

    def limits_both_classes(self, file: str) -> bool:
        """Whether the cgroups of Burstable and BestEffort pods both have a limit in a file, as --qos-reserved
        gives it to both."""
        host = self.node.host
        fresh = released(file, host.hierarchy) or ""
        paths = [one.path or "" for one in self.plan.cgroups if self.level(one) == "qos"]
        found = [self.live.cgroups[path].values for path in paths if path in self.live.cgroups]
        return not any(same(file, one.get(file, fresh), fresh, host.page_size) for one in found)

    def owner(self, cgroup: Cgroup, file: str, *, is_kept: bool = False) -> Ownership:
        """Who owns a file of a planned cgroup. ``is_kept``: systemd has the value as a property."""
        return ownership(cgroup, file, self.node, self.root, is_kept=is_kept)

    def finding(
        self,
        verdict: Verdict,
        cgroup: Cgroup,
        path: str,
        message: str,
        *,
        severity: Severity | None = None,
        hint: str = "",
        fix: str | None = None,
    ) -> Finding:
        """A finding about a planned cgroup as a whole."""
        pod, container = cgroup.pod, cgroup.container
        return Finding(
            verdict=verdict,
            severity=severity or SEVERITIES.get(verdict, "warning"),
            name=cgroup.name,
            path=path,
            unit=cgroup.unit,
            pod=None if pod is None else (pod.namespace, pod.name),
            container=None if container is None else container.name,
            message=message,
            hint=hint,
            fix=fix,
        )


@lru_cache(maxsize=8)
def _root(cgroup_root: str, cgroups_per_qos: bool) -> str:
    return to_cgroupfs(root_of(cgroup_root, cgroups_per_qos))
