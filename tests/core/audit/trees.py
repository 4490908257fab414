"""Plans of the sample pods, and the tree of cgroups that a kubelet and a runtime leave of them."""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from qoslet.core.api.manifest import Options
from qoslet.core.audit.audit import audit, read_request, unit_names
from qoslet.core.audit.finding import AuditReport
from qoslet.core.audit.live import SUBTREE, LiveCgroup, LiveTree, Units
from qoslet.core.cgroup.interface_files import property_of, released
from qoslet.core.cgroup.names import container_leaf
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.host.files import manifests
from qoslet.host.files import node as node_files
from tests.paths import REPO

SAMPLES = REPO / "tests" / "data" / "samples"
CONTROLLERS = "cpu cpuset hugetlb memory pids"
NODE = """
apiVersion: qoslet/v1
kind: Node
kubernetes: "{kubernetes}"
runtime: containerd-2.2.0+runc-{runc}
capacity: {{cpu: 4, memory: 8Gi, pid: 30000}}
host:
  hierarchy: {hierarchy}
  systemd: {systemd}
  controllers: [cpu, cpuset, memory, pids, hugetlb]
  swapController: true
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: {driver}
failCgroupV1: false
podPidsLimit: 100
cgroupRoot: /
"""


def node_text(
    hierarchy: str = "v2", driver: str = "cgroupfs", kubernetes: str = "1.36", runc: str = "1.4.0"
) -> str:
    """The documents of a node."""
    return NODE.format(
        hierarchy=hierarchy, driver=driver, kubernetes=kubernetes, runc=runc, systemd=257
    )


@lru_cache(maxsize=32)
def plan_of(
    path: str,
    hierarchy: str = "v2",
    driver: str = "cgroupfs",
    kubernetes: str = "1.36",
    **flags: str,
) -> Plan:
    """The plan of the sample pods, which have container IDs."""
    file = f"{path}/{hierarchy}-{driver}-{kubernetes}.yaml"
    with open(file, "w", encoding="utf-8") as opened:
        opened.write(node_text(hierarchy, driver, kubernetes))
    node = node_files.load_node([file], Flags(**flags))[0]
    loaded = manifests.load([str(SAMPLES / "kubelet-pods.json")], Options())
    return plan(loaded.pods, node)


def tree_of(plan: Plan) -> LiveTree:
    """The cgroups of a plan as they are where nothing was changed, sandboxes among them."""
    cgroups: dict[str, LiveCgroup] = {"/": _group("/", {SUBTREE: CONTROLLERS})}
    request = read_request(plan)
    parents: dict[str, str] = {}
    number = 100
    for cgroup in plan.cgroups:
        if cgroup.level == "pod" and cgroup.pod is not None:
            parents[cgroup.pod.uid] = cgroup.path or ""
    for cgroup in plan.cgroups:
        path = cgroup.path
        if cgroup.level == "sandbox" and cgroup.pod is not None:
            parent = parents[cgroup.pod.uid]
            slices = plan.node.driver == "systemd"
            leaf = container_leaf("containerd", f"{number:064x}", slices)
            path = f"{parent}/{leaf}"
        if path is None:
            continue
        number += 1
        files = request.files.get(path, request.default)
        values = {file: released(file, plan.node.hierarchy) or "" for file in files}
        values.update({setting.file: setting.applied for setting in cgroup.settings})
        if plan.node.hierarchy == "v2" and cgroup.level != "container":
            values[SUBTREE] = CONTROLLERS
        inside = cgroup.level in ("container", "sandbox")
        oom = (cgroup.oom_score_adj or 0,) if inside else None
        pids = (number,) if inside else ()
        cgroups[path] = LiveCgroup(
            path, number, values, processes=len(pids), pids=pids, oom_score_adj=oom
        )
    return LiveTree(cgroups)


def _group(path: str, values: dict[str, str]) -> LiveCgroup:
    return LiveCgroup(path, 1, values, processes=0)


def units_of(plan: Plan, live: LiveTree) -> dict[str, Units]:
    """The properties of the units as the kubelet and the runtime set them."""
    names, _ = unit_names(plan, live)
    by_unit = {cgroup.unit: cgroup for cgroup in plan.cgroups if cgroup.unit is not None}
    return {name: _properties(plan, by_unit[name]) for name in names if name in by_unit}


def _properties(plan: Plan, cgroup: Cgroup) -> Units:
    found = {"MemoryHigh": "infinity", "MemoryMin": "0", "MemoryLow": "0"}
    for setting in cgroup.settings:
        name = property_of(setting.file, plan.node.hierarchy, 257)
        if name is None or name == "CPUQuotaPeriodUSec":
            continue
        if name == "CPUQuotaPerSecUSec":
            quota, _, period = setting.applied.partition(" ")
            period = period or "100000"
            per = "infinity" if not quota.isdecimal() else f"{int(quota) * 1000 // int(period)}ms"
            found[name] = per
        else:
            found[name] = {"max": "infinity", "-1": "infinity"}.get(
                setting.applied, setting.applied
            )
    return found


def look(plan: Plan, live: LiveTree, units: dict[str, Units] | None = None) -> AuditReport:
    """The audit of a tree."""
    if units is None:
        units = units_of(plan, live)
    return audit(plan, live, units, {})


def changed(live: LiveTree, path: str, **values: object) -> LiveTree:
    """The tree with fields of one cgroup replaced."""
    return LiveTree({**live.cgroups, path: replace(live.cgroups[path], **values)}, live.unread)


def written(live: LiveTree, path: str, file: str, value: str | None) -> LiveTree:
    """The tree with another value in a file; None: the file is absent."""
    values = dict(live.cgroups[path].values)
    if value is None:
        values.pop(file, None)
    else:
        values[file] = value
    return changed(live, path, values=values)


def without(live: LiveTree, path: str) -> LiveTree:
    """The tree without a cgroup and those below it."""
    kept = {
        name: one
        for name, one in live.cgroups.items()
        if name != path and not name.startswith(f"{path}/")
    }
    return LiveTree(kept, live.unread)


def added(live: LiveTree, path: str, **fields: object) -> LiveTree:
    """The tree with another cgroup."""
    group = replace(LiveCgroup(path, 9999, {}, processes=0), **fields)
    return LiveTree({**live.cgroups, path: group}, live.unread)
