"""Pods whose runtime keeps the processes of all containers in one sandbox: their containers have no
cgroup on the node, or an empty one.

Source: gVisor issues 6500 (empty cgroups), 13067 (none with the systemd driver) and 9580 (all processes
are in the sandbox's cgroup); Kata Containers docs/design/host-cgroups.md, sandbox_cgroup_only.
"""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.verdicts.groups import MatchedGroups
from qoslet.core.cgroup.names import is_below, parents


def sandboxed_pods(context: AuditContext) -> frozenset[str]:
    """UIDs of the pods with a RuntimeClass that have processes, but none in the cgroups of the containers
    that run."""
    containers: dict[str, list[str]] = {}
    pods: dict[str, str] = {}
    for cgroup in context.plan.cgroups:
        pod, container, path = cgroup.pod, cgroup.container, cgroup.path
        if pod is None or path is None or not pod.platform.runtime_class:
            continue
        if cgroup.level == "pod":
            pods[pod.uid] = path
        elif container is not None and container.runs:
            containers.setdefault(pod.uid, []).append(path)
    if not containers:
        return frozenset()
    busy = _with_processes(context)
    return frozenset(
        uid
        for uid, paths in containers.items()
        if pods.get(uid) in busy and not any(path in busy for path in paths)
    )


def _with_processes(context: AuditContext) -> set[str]:
    """The cgroups that have processes in them or below."""
    found = set[str]()
    for path, one in context.live.cgroups.items():
        if one.processes:
            found.update((path, *parents(path)))
    return found


def without_sandboxed(matched: MatchedGroups, uids: frozenset[str]) -> MatchedGroups:
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
        if one.level == "pod" or one.pod is None or one.pod.uid not in uids
    }
    surplus = [path for path in matched.surplus if not any(is_below(path, pod) for pod in pods)]
    return replace(matched, planned=kept, surplus=tuple(surplus))
