"""v2 controllers that are not enabled along the path of a planned cgroup.

Source: kubelet cm/cgroup_v2_manager_linux.go Validate: the cgroups of pods must have cpu, cpuset,
memory, hugetlb and pids, as far as the machine has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import Finding
from qoslet.core.audit.live import SUBTREE, LiveCgroup
from qoslet.core.audit.writers import ROOT
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import parents
from qoslet.core.node.node import PLANNED_CONTROLLERS
from qoslet.core.resources.cgroup_tree import Cgroup


def controller_findings(
    context: AuditContext, planned: Mapping[str, Cgroup]
) -> Iterator[tuple[Finding, frozenset[str]]]:
    """Each cgroup that does not pass on what those below it need, with the controllers that they
    then miss; the topmost of a path only."""
    if context.node.hierarchy == "v1":
        return
    needs = _needs(context, planned)
    reported: dict[str, frozenset[str]] = {}
    for path in sorted(needs, key=lambda one: (one.count("/"), one)):
        live = context.live.cgroups.get(path)
        if live is None or SUBTREE not in live.values:
            continue
        lacking = needs[path] - frozenset(live.values[SUBTREE].split())
        for above in (*parents(path), "/"):
            lacking -= reported.get(above, frozenset())
        if lacking:
            reported[path] = lacking
            yield _finding(context, planned.get(path), live, lacking), lacking


def _needs(context: AuditContext, planned: Mapping[str, Cgroup]) -> dict[str, frozenset[str]]:
    """The controllers that each cgroup must enable for the planned cgroups below it. Those that do not exist
    yet, or whose pod is starting or ending, do not count: whoever creates them enables what they need,
    and systemd disables what no slice needs once no pod is left."""
    host = context.node.host.controllers
    # a kubelet checks them; what apply and run make has those of its values
    checked = context.node.kubelet_given and context.node.profile.runtime.oci != "process"
    required = PLANNED_CONTROLLERS & host if checked and host is not None else frozenset()
    existing = context.live.controllers
    levels = ("pod",) if context.node.driver == "systemd" else ("kubepods", "qos", "pod")
    found: dict[str, frozenset[str]] = {}
    for path, cgroup in planned.items():
        if context.on_its_way(cgroup.pod) or path not in context.live.cgroups:
            continue
        needed = frozenset(controller(setting.file) for setting in cgroup.settings)
        if context.level(cgroup) in levels:
            needed |= required
        if existing is not None:
            needed &= existing
        for above in (*parents(path), "/"):
            found[above] = found.get(above, frozenset()) | needed
    return found


def _finding(
    context: AuditContext, cgroup: Cgroup | None, live: LiveCgroup, lacking: frozenset[str]
) -> Finding:
    names = ", ".join(sorted(lacking))
    wanted = " ".join(f"+{name}" for name in sorted(lacking))
    message = f"{names} not enabled for the cgroups below: their values have no effect"
    if cgroup is None:
        finding = Finding(
            verdict="controller", severity="error", name=live.path, path=live.path, message=message
        )
    else:
        finding = context.finding("controller", cgroup, live.path, message)
    enabled = frozenset(live.values[SUBTREE].split())
    return replace(
        finding,
        file=SUBTREE,
        expected=" ".join(sorted(enabled | lacking)),
        found=live.values[SUBTREE],
        writer=_writer(context),
        may_have=(ROOT, "systemd, which disables what no unit needs"),
        reset_by="whatever creates a cgroup below enables it again; values must be written again",
        source=None
        if context.is_own
        else "kubelet cm/cgroup_v2_manager_linux.go Validate; cgroup-v2.rst, Controllers",
        fix=context.repair.write(live.path, SUBTREE, wanted),
        hint="then restart the pods below, or write their values again: they were lost",
    )


def _writer(context: AuditContext) -> str:
    """Who enables controllers."""
    if context.node.driver == "systemd":
        return "systemd"
    return "qoslet" if context.is_own else "kubelet"
