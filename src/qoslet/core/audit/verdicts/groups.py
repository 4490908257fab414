"""Which cgroups are there that should not be, and which are not there that should."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import SEVERITIES, Finding, Verdict, pending
from qoslet.core.audit.live import LiveCgroup, LiveTree
from qoslet.core.audit.repair import Repair
from qoslet.core.audit.verdicts.processes import named
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import (
    MONITORS,
    SCOPE,
    SLICE,
    UNIT_ENDINGS,
    USE_SYSTEMD,
    DriverName,
    concrete,
    from_systemd,
    is_below,
    is_pod,
    monitors_of,
    parents,
    pod_uid,
    strayed,
    to_cgroupfs,
)
from qoslet.core.resources.cgroup_tree import Cgroup, Plan

CONMON = "crio-conmon-"
"""Scopes of CRI-O's monitors stand beside the containers."""
_INIT = "runc:["
"""How runc names a process until it executes that of the container. Source: runc libcontainer/nsenter
nsexec.c."""


class MatchedGroups(Struct, frozen=True):
    """Planned cgroups by their paths, sandboxes among them, and cgroups that no row plans: the
    topmost of each subtree. ``unknown`` are pods of which some containers' IDs are not known, though
    they may run."""

    planned: Mapping[str, Cgroup]
    surplus: tuple[str, ...]
    unknown: tuple[str, ...]


class _PlannedPod(Struct):
    """A pod's cgroup and that of its sandbox. ``unnamed``: whether any container whose ID no status
    has may run; None without such a container."""

    path: str = ""
    sandbox: Cgroup | None = None
    unnamed: bool | None = None


def match(context: AuditContext) -> MatchedGroups:
    """Which planned cgroup each cgroup is. In a pod's cgroup, the one that no status names is
    its sandbox, which a plan has not where the CRI runtime is not known."""
    planned = {cgroup.path: cgroup for cgroup in context.plan.cgroups if cgroup.path is not None}
    surplus = _surplus(context, planned)
    containers: dict[str, list[str]] = {}
    for path in surplus:
        parent, _, leaf = path.rpartition("/")
        if is_container(leaf):
            containers.setdefault(parent, []).append(path)
    taken, unknown = set[str](), list[str]()
    for pod in _planned_pods(context.plan) if containers else ():
        found = containers.get(pod.path, [])
        if found and pod.unnamed is not None and (pod.unnamed or len(found) > 1):
            # any of them may be a container whose ID no status has
            unknown.append(pod.path)
            taken.update(found)
        elif found and not context.is_own:
            one = _sandbox_of(context, pod.sandbox, found)
            taken.add(one)
            if pod.sandbox is not None:
                planned[one] = replace(pod.sandbox, path=one, unit=_unit(context, one))
    rest = tuple(path for path in surplus if path not in taken)
    return MatchedGroups(planned, rest, tuple(unknown))


def _planned_pods(plan: Plan) -> list[_PlannedPod]:
    """The pods that have a cgroup in the plan."""
    pods: dict[str, _PlannedPod] = {}
    for cgroup in plan.cgroups:
        if cgroup.pod is None:
            continue
        pod = pods.setdefault(cgroup.pod.uid, _PlannedPod())
        if cgroup.level == "pod" and cgroup.path is not None:
            pod.path = cgroup.path
        elif cgroup.level == "sandbox":
            pod.sandbox = cgroup
        elif cgroup.path is None:
            waits = cgroup.container is not None and cgroup.container.runs is False
            pod.unnamed = bool(pod.unnamed) or not waits
    return [pod for pod in pods.values() if pod.path]


def placed(plan: Plan, live: LiveTree) -> dict[str, str]:
    """The paths of the plan's cgroups by their names, as far as they are known, those of sandboxes
    in a tree that was read, too."""
    context = AuditContext(plan, live, {}, Repair(plan.node.hierarchy, {}))
    return {cgroup.name: path for path, cgroup in match(context).planned.items()}


def _unit(context: AuditContext, path: str) -> str | None:
    """The unit that has a cgroup's name, where systemd may have one."""
    leaf = path.rpartition("/")[2]
    return leaf if context.node.driver == "systemd" and leaf.endswith(UNIT_ENDINGS) else None


def _surplus(context: AuditContext, planned: Mapping[str, Cgroup]) -> list[str]:
    """The topmost cgroups below the root of all pods that are neither planned nor inside a planned
    container."""
    root, kubelet = context.root_path, context.node.kubelet
    if not kubelet.cgroups_per_qos:
        return []
    found: list[str] = []
    above = {one for path in planned for one in parents(path)}
    for path in context.live.cgroups:
        if path in planned or path in above or not is_below(path, root):
            continue
        parent = path.rpartition("/")[0]
        owner = planned.get(parent)
        inside = owner is None and parent != root and parent not in above
        if inside or (owner is not None and owner.level == "container"):
            continue
        if path.rpartition("/")[2].startswith(CONMON) or _has_monitors(context, path, parent):
            continue
        found.append(path)
    return found


def _has_monitors(context: AuditContext, path: str, pod: str) -> bool:
    """Whether a cgroup is the one of a pod to which qoslet has the runtime's programs charged, and
    has no other process."""
    live = context.live.cgroups[path]
    programs = [live.commands.get(pid, "") for pid in live.pids]
    return path == monitors_of(pod) and all(one.startswith(MONITORS) for one in programs)


def _sandbox_of(context: AuditContext, sandbox: Cgroup | None, paths: Sequence[str]) -> str:
    """The container's cgroup that is the sandbox: with a process, with the planned values, made
    first."""
    live = context.live.cgroups

    def order(path: str) -> tuple[bool, int, int]:
        group = live[path]
        settings = () if sandbox is None else sandbox.settings
        off = sum(group.values.get(one.file) != one.applied for one in settings)
        return not group.processes, off, group.identity

    return min(paths, key=order)


def is_container(leaf: str) -> bool:
    """Whether a cgroup has the name of a runtime's container: its ID of hexadecimal digits."""
    identity = leaf.removesuffix(SCOPE).rpartition("-")[2]
    return len(identity) >= 12 and all(letter in "0123456789abcdef" for letter in identity)


def _abstract(context: AuditContext, path: str) -> str:
    """The name of a cgroup that is not planned."""
    leaf = path.rpartition("/")[2]
    if context.node.driver == "systemd" and leaf.endswith(SLICE):
        return to_cgroupfs(from_systemd(leaf))
    return path


def surplus_findings(context: AuditContext, matched: MatchedGroups) -> Iterator[Finding]:
    """Orphans and foreign cgroups."""
    names = {
        one.pod.uid: one.name for one in context.plan.cgroups if one.level == "pod" and one.pod
    }
    for path in matched.surplus:
        inside = _below(context, path)
        below = f" and {_count(inside.groups, 'cgroup', 'cgroups')} below" if inside.groups else ""
        below += f": {named(inside.pids, inside.commands)}" if inside.pids else ""
        what = _count(inside.processes, "process", "processes")
        parent = matched.planned.get(path.rpartition("/")[0])
        inside_pod = parent is not None and parent.level == "pod"
        uid = pod_uid(path)
        source: str | None
        fix = context.repair.remove(path, _unit(context, path)) if not inside.processes else None
        hint = "" if fix else _ending(context, path)
        pod = None
        if inside_pod and parent is not None and parent.pod is not None:
            pod = (parent.pod.namespace, parent.pod.name)
        if is_pod(path) and not inside_pod:
            verdict: Verdict = "orphan"
            planned = names.get(uid)
            message = f"no pod has UID {uid}; it has {what}{below}"
            if planned is not None:
                message = f"the pod of UID {uid} belongs to {planned}; this has {what}{below}"
            if inside.is_starting and not context.is_own:
                verdict, message = "pending", f"{message}: its runtime is just starting it"
            reset = "the kubelet, when it cleans up, every 2 seconds"
            source = "kubelet pkg/kubelet/kubelet_pods.go cleanupOrphanedPodCgroups"
            if context.is_own:
                reset, source = (
                    "qoslet removes it where its journal has it, else nothing does",
                    None,
                )
        else:
            verdict, reset, source = "foreign", "nothing removes it", None
            message = f"no pod accounts for this cgroup, which has {what}{below}"
        yield Finding(
            verdict=verdict,
            severity=SEVERITIES.get(verdict, "warning"),
            name=_abstract(context, path),
            path=path,
            unit=_unit(context, path),
            pod=pod,
            message=message,
            hint="" if verdict == "pending" else hint,
            fix=fix,
            reset_by=reset,
            source=source,
        )


def _count(number: int, one: str, many: str) -> str:
    return f"{number or 'no'} {one if number == 1 else many}"


class _Inside(Struct, frozen=True):
    """What is in a cgroup and below: how many processes, those that are known, how many cgroups below."""

    processes: int
    pids: tuple[int, ...]
    commands: Mapping[int, str]
    groups: int

    @property
    def is_starting(self) -> bool:
        """Whether its runtime has only begun to start what is in it."""
        names = self.commands.values()
        return bool(names) and all(name.startswith(_INIT) for name in names)


def _below(context: AuditContext, path: str) -> _Inside:
    live = context.live.cgroups
    groups = [live[path], *(one for other, one in live.items() if is_below(other, path))]
    pids = [pid for one in groups for pid in one.pids]
    commands = {pid: name for one in groups for pid, name in one.commands.items()}
    return _Inside(
        sum(one.processes or 0 for one in groups), tuple(pids), commands, len(groups) - 1
    )


def _ending(context: AuditContext, path: str) -> str:
    """How to end the processes of a cgroup that is not to be there."""
    leaf = path.rpartition("/")[2]
    if _unit(context, path) and not leaf.endswith(SLICE) and not is_container(leaf):
        return f"systemctl status {leaf} says who started it, systemctl stop {leaf} ends it"
    return "end its processes through whatever started them; then remove it"


def other_driver(context: AuditContext) -> tuple[DriverName, str]:
    """The other driver, and the path that the root of all pods would have with it."""
    node = context.node
    other: DriverName = "cgroupfs" if node.driver == "systemd" else "systemd"
    return other, concrete(node.kubelet.pods_cgroup, other)


def driver_findings(context: AuditContext) -> Iterator[Finding]:
    """The tree of the other driver, where it stands."""
    if not context.node.kubelet.cgroups_per_qos:
        return
    other, path = other_driver(context)
    group = context.live.cgroups.get(path)
    if group is None or path == context.root_path:
        return
    inside = _below(context, path)
    processes, groups = inside.processes, inside.groups
    absent = context.root_path not in context.live.cgroups
    used = processes > 0 or absent
    verdict: Verdict = "driver" if used else "stale"
    what = _count(processes, "process", "processes")
    message = (
        f"the tree of the {other} driver, with {_count(groups, 'cgroup', 'cgroups')} and {what}"
    )
    if absent:
        message += f"; {context.root_path}, that of {context.node.driver}, does not exist"
    else:
        message += f"; the node uses {context.node.driver}"
    unit = path.rpartition("/")[2] if other == "systemd" else None
    # without a cgroup its slices stay active, and a kubelet that goes back does not get them
    repair = replace(context.repair, systemd=context.node.host.systemd)
    advice = f"set cgroupDriver: {other} in what is audited, or drain the node and restart it"
    yield Finding(
        verdict=verdict,
        severity=SEVERITIES.get(verdict, "warning"),
        name=context.root,
        path=path,
        unit=unit,
        message=message,
        hint=advice if used else "",
        fix=None if used else repair.remove(path, unit),
        reset_by="only a restart of the machine removes it",
    )


def missing_finding(context: AuditContext, cgroup: Cgroup, path: str) -> Finding:
    """A planned cgroup that is absent."""
    below = sum(
        1 for one in context.plan.cgroups if one.path is not None and is_below(one.path, path)
    )
    more = f", nor have the {below} planned below it" if below else ""
    pod, own = cgroup.pod, context.is_own
    hint, fix = "restart the pod: the kubelet and the runtime create it", None
    if own:
        hint = "qoslet creates it as it starts the pod: qoslet ps says why it has not"
    if cgroup.container is not None and context.strays:
        for elsewhere in strayed(path, context.node.hierarchy):
            if elsewhere in context.live.cgroups:
                hint = f"{USE_SYSTEMD}, restart containerd and the pod"
                message = f"its cgroup is {elsewhere}, outside of its pod: its runtime does not use systemd"
                return context.finding("driver", cgroup, path, message, hint=hint)
    if pod is None:
        hint = (
            "qoslet run and qoslet apply create it"
            if own
            else "the kubelet creates it at its start"
        )
        fix = context.repair.create(path, tuple(_controllers(cgroup)))
    elif cgroup.container is not None:
        hint = f"restart the container: {'qoslet' if own else 'its runtime'} creates it"
    message = f"the cgroup does not exist{more}"
    if why := context.on_its_way(pod):
        return context.finding("pending", cgroup, path, f"{message}: {why}")
    return context.finding("missing", cgroup, path, message, hint=hint, fix=fix)


def partly_missing(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Finding | None:
    """A cgroup that is absent in some v1 hierarchy in which values are planned for it."""
    needed = [name for name in live.missing if name in _controllers(cgroup)]
    if not needed:
        return None
    names = ", ".join(needed)
    finding = context.finding(
        "missing", cgroup, live.path, f"the cgroup does not exist in the hierarchy of {names}"
    )
    if why := context.on_its_way(cgroup.pod):
        return pending(finding, f"{finding.message}: {why}")
    fix = context.repair.create(live.path, tuple(needed))
    return replace(finding, fix=fix, hint="then write its values, which are those of a new cgroup")


def _controllers(cgroup: Cgroup) -> list[str]:
    return list(dict.fromkeys(controller(one.file) for one in cgroup.settings))
