"""Processes where none may be, containers without one, and oom_score_adj."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import Finding
from qoslet.core.audit.live import LiveCgroup
from qoslet.core.audit.writers import ROOT
from qoslet.core.cgroup.names import is_at_or_below, is_below
from qoslet.core.reconcile.file_writers import Level, resets, writer_of
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.rules.catalog import RULES

OOM = "oom_score_adj"
_MOST = 5
_MOVERS = ("a process with root's rights that wrote cgroup.procs",)


def process_findings(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Iterator[Finding]:
    """The findings about the processes of a planned cgroup."""
    holds = cgroup.level in ("container", "sandbox") or not _is_inner(context, cgroup)
    if not holds and live.processes:
        yield _foreign(context, cgroup, live)
    if live.strangers:
        yield _stranger(context, cgroup, live)
    if live.away:
        yield from _away(context, cgroup, live)
    if live.partial:
        yield _partial(context, cgroup, live)
    empty = cgroup.level == "container" and live.processes == 0 and _runs(cgroup)
    if empty and not _has_below(context, live.path):
        message = "the pod's status says that the container runs, but its cgroup has no process"
        if why := context.on_its_way(cgroup.pod):
            yield context.finding("pending", cgroup, live.path, f"{message}: {why}")
            return
        hint = "its processes were moved: see the other findings, or restart the container"
        yield context.finding("missing", cgroup, live.path, message, hint=hint)


def _has_below(context: AuditContext, path: str) -> bool:
    """Whether a program moved its processes to cgroups that it made in its container's, as systemd and
    dockerd do."""
    groups = context.live.cgroups.items()
    return any(one.processes and is_below(name, path) for name, one in groups)


def _runs(cgroup: Cgroup) -> bool:
    return cgroup.container is not None and cgroup.container.runs is True


def _is_inner(context: AuditContext, cgroup: Cgroup) -> bool:
    """Whether a cgroup holds other cgroups only. Reserved ones hold the daemons of the node."""
    return context.level(cgroup) in ("kubepods", "qos", "pod")


def named(pids: Sequence[int], commands: Mapping[int, str]) -> str:
    """The first processes, with their names as far as they are known, and how many more there are."""
    shown = [f"{pid} ({commands[pid]})" if pid in commands else str(pid) for pid in pids[:_MOST]]
    more = len(pids) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _foreign(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Finding:
    count = live.processes or 0
    who = f": {named(live.pids, live.commands)}" if live.pids else ""
    what = "a process" if count == 1 else f"{count} processes"
    message = f"{what} in a cgroup that holds only other cgroups{who}"
    finding = context.finding("foreign", cgroup, live.path, message)
    return replace(
        finding,
        found=" ".join(map(str, live.pids)) or str(count),
        reset_by=f"{'qoslet' if context.is_own else 'the kubelet'} kills them when it removes the cgroup"
        if cgroup.level == "pod"
        else "nothing moves them",
        may_have=_MOVERS,
        hint="move them back into their container's cgroup.procs, or end them",
    )


def _stranger(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Finding:
    count = len(live.strangers)
    what = "a process that was" if count == 1 else f"{count} processes that were"
    message = f"{what} not started in this {cgroup.level}: {named(live.strangers, live.commands)}"
    finding = context.finding("foreign", cgroup, live.path, message)
    return replace(
        finding,
        found=" ".join(map(str, live.strangers)),
        may_have=_MOVERS,
        reset_by=f"{'qoslet' if context.is_own else 'the runtime'} kills them when the {cgroup.level} ends",
        hint="it is in another mount namespace, or has another parent; move it back, or end it",
    )


def _away(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Iterator[Finding]:
    """Processes that started some of a container, outside of all pods: in a cgroup of pods they are foreign."""
    groups = context.live.cgroups.items()
    inside = [one for path, one in groups if is_at_or_below(path, context.root_path)]
    away = {pid: at for pid, at in live.away.items() if not any(pid in one.pids for one in inside)}
    if not away:
        return
    what = "a process" if len(away) == 1 else f"{len(away)} processes"
    whose = "the parent of those" if len(away) == 1 else "the parents of those"
    where = ", ".join(dict.fromkeys(away.values()))
    who = f"{named(tuple(away), live.commands)}, {whose} here"
    message = f"{what} of this {cgroup.level} in {where}: {who}"
    fixes = (context.repair.write(live.path, "cgroup.procs", str(pid)) for pid in away)
    yield replace(
        context.finding("missing", cgroup, live.path, message),
        found=" ".join(map(str, away)),
        may_have=_MOVERS,
        reset_by=f"nothing moves them back; a restart of the {cgroup.level} starts new ones here",
        fix="; ".join(fixes) if context.node.hierarchy == "v2" else None,
        hint=f"until then no limit of this {cgroup.level} holds them: move them back",
    )


def _partial(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Finding:
    message = f"in some v1 hierarchies only: process {named(live.partial, live.commands)}"
    finding = context.finding("foreign", cgroup, live.path, message)
    return replace(
        finding,
        found=" ".join(map(str, live.partial)),
        may_have=_MOVERS,
        reset_by="nothing moves them",
        hint="compare /proc/PID/cgroup: all controllers of a container name the same cgroup",
    )


_BURSTABLE = range(2, 1000)
"""oom_score_adj that requests of memory decide. Source: kubelet qos/policy.go
GetContainerOOMScoreAdjust."""


def _is_before_resize(cgroup: Cgroup, expected: int, found: int) -> bool:
    """Whether another request of memory gives the value, which the pod may have had."""
    changed = cgroup.pod is not None and cgroup.pod.was_changed is True
    return changed and expected in _BURSTABLE and found in _BURSTABLE


def oom_finding(context: AuditContext, cgroup: Cgroup, live: LiveCgroup) -> Finding | None:
    """A first process whose ``oom_score_adj`` is not that of its container or sandbox; what other
    processes have, programs decide themselves."""
    expected, found = cgroup.oom_score_adj, live.oom_score_adj
    if expected is None or not found:
        return None
    level: Level = "sandbox" if cgroup.level == "sandbox" else "container"
    least = context.live.least_oom_score_adj
    possible = expected if least is None else max(expected, least)
    if expected in found or possible in found:
        return None
    row = writer_of(level, OOM, context.node.profile.minor)
    own = context.owner(cgroup, OOM).writer == "qoslet"
    whose = "the sandbox's first process" if level == "sandbox" else "the first process"
    message = f"{OOM} of {whose} is {found[0]}, planned {expected}"
    finding = context.finding("drift", cgroup, live.path, message)
    if not own and _is_before_resize(cgroup, expected, found[0]):
        # the runtime sets it only when a container starts
        told = f"{message}: as when the container started, before a resize of the pod"
        finding = context.finding("stale", cgroup, live.path, told, severity="info")
    rule = cgroup.oom_rule
    pid = live.pids[0] if live.pids else None
    return replace(
        finding,
        file=OOM,
        expected=str(expected),
        found=str(found[0]),
        writer="qoslet" if own else "runtime",
        may_have=(
            "the program itself",
            ROOT,
            "whatever started it without CAP_SYS_RESOURCE, which is needed to lower the value",
        ),
        reset_by="qoslet resets it when the container restarts" if own else resets(row),
        rule=rule,
        because=None if rule is None else RULES[rule].because(*cgroup.oom_inputs),
        source=None if rule is None else RULES[rule].source,
        fix=None if pid is None else f"printf '%s' {possible} > /proc/{pid}/{OOM}",
    )
