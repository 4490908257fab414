"""Pods whose runtime keeps the processes of all containers in one sandbox: their containers have no
cgroup on the node, or an empty one.

Source: gVisor issues 6500 (empty cgroups), 13067 (none with the systemd driver) and 9580 (all processes
are in the sandbox's cgroup); Kata Containers docs/design/host-cgroups.md, sandbox_cgroup_only.
"""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.verdicts.groups import MatchedGroups
from qoslet.core.cgroup.names import is_at_or_below, is_below
from qoslet.core.resources.cgroup_tree import Cgroup


def sandboxed_pods(context: AuditContext) -> frozenset[str]:
    """UIDs of the pods with a RuntimeClass of which all containers should run and none has a process in
    its cgroup, while others below the pod's have."""
    busy = [path for path, one in context.live.cgroups.items() if one.processes]
    containers: dict[str, list[Cgroup]] = {}
    for cgroup in context.plan.cgroups:
        pod = cgroup.pod
        if pod is not None and pod.platform.runtime_class and cgroup.container is not None:
            containers.setdefault(pod.uid, []).append(cgroup)
    found = set[str]()
    for cgroup in context.plan.cgroups:
        pod = cgroup.pod
        rows = containers.get(pod.uid, []) if pod is not None and cgroup.level == "pod" else []
        running = [one for one in rows if one.container is not None and one.container.runs]
        inside = [path for path in busy if is_below(path, cgroup.path or "")] if running else []
        own = [one.path for one in running if one.path is not None]
        if inside and own and not any(is_at_or_below(path, one) for path in inside for one in own):
            found.add(running[0].pod.uid if running[0].pod is not None else "")
    return frozenset(found)


def without_sandboxed(
    context: AuditContext, matched: MatchedGroups, uids: frozenset[str]
) -> MatchedGroups:
    """The cgroups without those in the pods of ``uids``: their runtime writes them in its own way."""
    if not uids:
        return matched
    pods = [
        path
        for path, one in matched.planned.items()
        if one.level == "pod" and one.pod is not None and one.pod.uid in uids
    ]
    kept = {
        path: one
        for path, one in matched.planned.items()
        if not any(is_below(path, pod) for pod in pods)
    }
    surplus = [path for path in matched.surplus if not any(is_below(path, pod) for pod in pods)]
    return replace(matched, planned=kept, surplus=tuple(surplus))
