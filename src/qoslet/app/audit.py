"""An audit of this machine: the plan of its pods against its cgroups, looked at again where
something is off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from qoslet.app.own_tree import keeps_pods, own_containers
from qoslet.core.audit.audit import audit, read_request, settled, unit_names
from qoslet.core.audit.finding import AuditReport, Unread
from qoslet.core.audit.kubelet_work import without_kubelet_work
from qoslet.core.audit.live import LiveSource, LiveTree, ReadRequest, Units
from qoslet.core.audit.resizing import without_resizes
from qoslet.core.node.resolve import as_written
from qoslet.errors import BadInput, CannotDo

if TYPE_CHECKING:
    import argparse

    from qoslet.app.bundle.inputs import BundleInputs
    from qoslet.app.inputs import Inputs
    from qoslet.core.resources.cgroup_tree import Plan
    from qoslet.host.cgroupfs.audit_reader import CgroupReader

Replan = Callable[[], "Plan"]

AGAIN_SECONDS = 0.25
"""How long after the first look what was off is looked at again."""


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
    plan: Plan, again: Replan | None = None, allocated: Replan | None = None
) -> Audited:
    """Compare this machine with a plan. ``again`` plans once more, where the pods can be asked for
    again; ``allocated`` with the resources that the statuses say are allocated, for resizes on
    their way. Raises CannotDo where nothing can be read."""
    source, mounts = machine_source(plan)

    def replan() -> Plan:
        return own_containers(again() if again is not None else plan)

    return audit_source(own_containers(plan), source, mounts, replan, allocated)


def machine_source(plan: Plan) -> tuple[LiveSource, Mapping[str, str]]:
    """This machine as the source for a plan, and its mounts. Raises CannotDo where it is another
    machine than the plan's."""
    from qoslet.app.node import needs_linux
    from qoslet.host.cgroupfs.audit_reader import CgroupReader
    from qoslet.host.cgroupfs.mounted import mounted

    needs_linux(plan.node)
    here = mounted()
    if here.hierarchy is None:
        raise CannotDo("no cgroup file system mounted", hint="see qoslet doctor")
    if here.hierarchy != plan.node.hierarchy:
        raise CannotDo(
            f"the node is described with cgroup {plan.node.hierarchy}, this machine has {here.hierarchy}",
            hint="remove host.hierarchy or --hierarchy",
        )
    mounts = here.mounts if here.hierarchy == "v1" else {"unified": here.unified or ""}
    reader = CgroupReader(here.hierarchy, mounts)
    return LiveMachine(reader, plan.node.driver == "systemd"), mounts


def audit_source(
    plan: Plan,
    source: LiveSource,
    mounts: Mapping[str, str],
    again: Replan | None = None,
    allocated: Replan | None = None,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> Audited:
    """Compare a source with a plan. What is off is looked at again after ``pause``, with the plan
    that ``again`` gives; without ``again`` the source does not change. Raises CannotDo."""
    report = look(plan, source, mounts)[1]
    if again is not None and report.findings:
        pause(AGAIN_SECONDS)
        plan = again()
        report = settled(report, look(plan, source, mounts)[1])
    if allocated is not None and any(one.counts for one in report.findings):
        report = without_resizes(report, plan, allocated())
    return Audited(plan, report)


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


def audit_inputs(args: argparse.Namespace) -> Audited:
    """The audit of what the options name; without pods, of the node of the kubelet that runs
    here. Raises QosletError."""
    from qoslet.app.inputs import bundle_of, read

    bundle = bundle_of(args)
    if bundle is not None:
        return _audit_bundle(args, bundle, read(args, args.filename))
    kept = args.runtime is None and args.cgroup_root and keeps_pods(args.cgroup_root)
    if kept:
        args.runtime = "process"
    args.live = args.live or not (args.filename or kept)
    try:
        inputs = read(args, args.filename)
    except CannotDo as error:
        # without pods there is nothing to compare with
        raise BadInput(error.message, where=error.where or "-f", hint=error.hint) from None
    inputs = _scheduled(inputs)
    if args.runtime == "process":
        inputs = replace(inputs, node=as_written(inputs.node))
    if args.live:
        return _audit_live(args, inputs)
    can_ask = args.resources == "spec" and "-" not in args.filename
    return audit_machine(
        inputs.plan(), None, partial(_allocated, args, inputs) if can_ask else None
    )


def _audit_live(args: argparse.Namespace, inputs: Inputs) -> Audited:
    """The audit of the node of a kubelet, which is asked again. Raises QosletError."""
    from qoslet.app.inputs import read_live

    running = set(inputs.running)

    def again() -> Plan:
        latest = read_live(args, again=True)
        running.update(latest.running)
        return _scheduled(latest).plan()

    def allocated() -> Plan:
        args.resources = "allocated"
        return _scheduled(read_live(args, again=True)).plan()

    can_ask = args.resources == "spec"
    audited = audit_machine(inputs.plan(), again, allocated if can_ask else None)
    return replace(
        audited,
        report=without_kubelet_work(audited.report, frozenset(running), is_new=inputs.is_new),
    )


def _audit_bundle(args: argparse.Namespace, bundle: BundleInputs, inputs: Inputs) -> Audited:
    """The audit of a bundle, which does not change: it is looked at once. Raises BadInput,
    CannotDo."""
    from qoslet.app.node import needs_linux
    from qoslet.core.api.manifest import Options

    needs_linux(inputs.node)
    node = inputs.node
    source = bundle.tree(node.hierarchy)
    mounts = dict(node.host.mounts) if node.hierarchy == "v1" else {"unified": "/sys/fs/cgroup"}

    running = bundle.running()

    def allocated() -> Plan:
        options = Options(args.expand, True, node.name, selector=args.selector)
        made = replace(inputs, pods=bundle.pods(options).pods).plan()
        return source.with_containers(made, running)

    can_ask = args.resources == "spec" and not args.filename
    plan = source.with_containers(inputs.plan(), running)
    return audit_source(plan, source, mounts, None, allocated if can_ask else None)


def _allocated(args: argparse.Namespace, inputs: Inputs) -> Plan:
    """The plan with the resources that the statuses say are allocated."""
    from qoslet.core.api.manifest import Options
    from qoslet.host.files.manifests import load

    options = Options(args.expand, True, inputs.node.name, selector=args.selector)
    pods = load(args.filename, options, recursive=args.recursive).pods
    return _scheduled(replace(inputs, pods=pods)).plan()


def _scheduled(inputs: Inputs) -> Inputs:
    """The pods that the node has: without those that wait for a scheduler."""
    pods = [pod for pod in inputs.pods if pod.node_name or pod.phase != "Pending"]
    return inputs if len(pods) == len(inputs.pods) else replace(inputs, pods=pods)
