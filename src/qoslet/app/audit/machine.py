"""An audit of this machine: the plan of its pods against its cgroups, looked at again where
something is off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from qoslet.app.own_tree import own_containers
from qoslet.core.audit.audit import audit, read_request, unit_names
from qoslet.core.audit.finding import AuditReport, Unread
from qoslet.core.audit.live import LiveSource, LiveTree, ReadRequest, Units
from qoslet.core.audit.two_looks import judged, orphans
from qoslet.errors import CannotDo

if TYPE_CHECKING:
    from qoslet.core.node.running_kubelet.work import KubeletWork
    from qoslet.core.resources.cgroup_tree import Plan
    from qoslet.host.cgroupfs.observe.audit_reader import CgroupReader

Replan = Callable[[], "Plan"]
Releases = Callable[[], Mapping[str, "Plan"]]
"""Plans with the releases that a kubelet may be which did not tell its own."""

AGAIN_SECONDS = 0.25
"""How long after the first look what was off is looked at again."""
CLEANUP_SECONDS = 2.5
"""The same beside a kubelet, where no pod accounts for a cgroup: a kubelet removes those each 2 s, of a
pod that went while its sandbox was made once that has failed. Source: kubelet.go housekeepingPeriod."""


class LiveMachine:
    """This machine as the source of an audit."""

    def __init__(self, reader: CgroupReader, systemd: bool) -> None:
        self._reader = reader
        self._systemd = systemd

    def read(self, request: ReadRequest) -> LiveTree:
        """The cgroups of a request."""
        return self._reader.read(request)

    def units(self, names: Sequence[str], properties: Iterable[str]) -> Mapping[str, Units]:
        """The properties of units; none where systemd does not run."""
        if not self._systemd or not names:
            return {}
        from qoslet.host.systemd.show_units import show_units

        return show_units(names, properties)


class Audited(Struct, frozen=True):
    """A plan and what its audit found."""

    plan: Plan
    report: AuditReport


def audit_machine(
    plan: Plan,
    again: Replan | None = None,
    allocated: Replan | None = None,
    work: Callable[[], KubeletWork] | None = None,
    releases: Releases | None = None,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> Audited:
    """Compare this machine with a plan. ``again`` plans once more, where the pods can be asked for
    again; ``allocated`` with the resources that the statuses say are allocated, for resizes on
    their way; ``work`` tells what the kubelet is about to do, ``releases`` plans with those that it may be. Raises CannotDo where nothing can be
    read."""
    source, mounts = machine_source(plan)

    def replan() -> Plan:
        return own_containers(again() if again is not None else plan)

    return audit_source(
        own_containers(plan), source, mounts, replan, allocated, work, releases, pause=pause
    )


def machine_source(plan: Plan) -> tuple[LiveSource, Mapping[str, str]]:
    """This machine as the source for a plan, and its mounts. Raises CannotDo where it is another
    machine than the plan's."""
    from qoslet.core.node.node import needs_linux
    from qoslet.host.cgroupfs.mounted import required_mounts
    from qoslet.host.cgroupfs.observe.audit_reader import CgroupReader

    needs_linux(plan.node)
    hierarchy, mounts = required_mounts(plan.node.hierarchy)
    reader = CgroupReader(hierarchy, mounts)
    return LiveMachine(reader, plan.node.driver == "systemd"), mounts


def audit_source(
    plan: Plan,
    source: LiveSource,
    mounts: Mapping[str, str],
    again: Replan | None = None,
    allocated: Replan | None = None,
    work: Callable[[], KubeletWork] | None = None,
    releases: Releases | None = None,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> Audited:
    """Compare a source with a plan. What is off is looked at again after ``pause``, with the plan
    that ``again`` gives; without ``again`` the source does not change. With ``work`` a kubelet runs
    there. Raises CannotDo."""
    first = second = look(plan, source, mounts)[1]
    if again is not None and first.findings:
        pause(CLEANUP_SECONDS if work is not None and orphans(first) else AGAIN_SECONDS)
        plan = again()
        second = look(plan, source, mounts)[1]

    def again_with(other: Plan) -> AuditReport:
        return look(other, source, mounts)[1]

    found = judged(first, second, plan, allocated, work, releases, again_with)
    return Audited(plan, found)


def look(
    plan: Plan,
    source: LiveSource,
    mounts: Mapping[str, str],
    more: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[LiveTree, AuditReport]:
    """Read a source once, and compare it with a plan. ``more`` are files to read, too, by the name of
    their cgroup."""
    live = source.read(read_request(plan, more or {}))
    units: Mapping[str, Units] = {}
    unread: tuple[Unread, ...] = ()
    names, properties = unit_names(plan, live)
    try:
        units = source.units(names, properties)
    except CannotDo as error:
        unread = (Unread("", "unit properties", str(error)),)
    report = audit(plan, live, units, mounts)
    return live, replace(report, unread=(*report.unread, *unread))
