"""memory.min and memory.low that have no effect, since a cgroup above protects nothing.

Source: cgroup-v2.rst, memory.low: the effective protection is bounded by that of all ancestors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import Finding
from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.cgroup.names import parents
from qoslet.core.resources.cgroup_tree import Cgroup


def ineffective(
    context: AuditContext, planned: Mapping[str, Cgroup], told: Collection[tuple[str, str | None]]
) -> Iterator[Finding]:
    """The topmost cgroups whose 0 takes the protection from those below. ``told`` are path and
    file of findings that say so already."""
    if context.node.hierarchy == "v1":
        return
    for file in PROTECTION:
        lost: dict[str, list[str]] = {}
        for path, live in context.live.cgroups.items():
            if path not in planned or live.values.get(file, "0") == "0" or (path, file) in told:
                continue
            blocker = _blocker(context, path, file)
            if blocker is not None:
                lost.setdefault(blocker, []).append(path)
        for blocker, paths in lost.items():
            if (blocker, file) not in told:
                yield _finding(context, planned, file, blocker, paths)


def _blocker(context: AuditContext, path: str, file: str) -> str | None:
    """The topmost ancestor that protects nothing."""
    protects_nothing = (
        above
        for above in reversed([*parents(path)])
        if (live := context.live.cgroups.get(above)) is not None and live.values.get(file) == "0"
    )
    return next(protects_nothing, None)


def _finding(
    context: AuditContext, planned: Mapping[str, Cgroup], file: str, blocker: str, paths: list[str]
) -> Finding:
    cgroup = planned.get(blocker)
    wanted = None if cgroup is None else cgroup.applied.get(file)
    # where the plan has the same gap, it is the release that does so
    planned_so = cgroup is not None and wanted in (None, "0")
    count = f"{len(paths)} cgroups" if len(paths) > 1 else "1 cgroup"
    message = f"{file} is 0 here, so that of {count} below has no effect, as of {paths[0]}"
    if planned_so:
        release = context.node.profile.kubernetes
        message += f"; Kubernetes {release} leaves it so"
    name = blocker if cgroup is None else cgroup.name
    unit = None if cgroup is None else cgroup.unit
    finding = Finding(
        verdict="ineffective",
        severity="info" if planned_so else "warning",
        name=name,
        path=blocker,
        unit=unit,
        message=message,
    )
    need = max(_bytes(context, path, file) for path in paths)
    return replace(
        finding,
        file=file,
        expected=wanted,
        found="0",
        reset_by=f"{'qoslet' if context.is_own else 'the kubelet'} resets it, with each QoS update"
        if planned_so
        else "nothing resets it",
        source="cgroup-v2.rst memory.low: effective protection is bounded by all ancestors",
        fix=context.repair.write(blocker, file, need, unit),
        hint="see qoslet explain for the protection that is effective",
    )


def _bytes(context: AuditContext, path: str, file: str) -> str:
    return context.live.cgroups[path].values[file]
