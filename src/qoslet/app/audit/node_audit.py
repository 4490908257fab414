"""The audit of what the options of ``qoslet audit`` name, as often as it is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.app.audit.machine import Audited, audit_machine, audit_source
from qoslet.app.inputs import scheduled
from qoslet.app.own_tree import choose_tree, without_ended
from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.core.node.resolve import as_written
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.errors import BadInput, CannotDo

if TYPE_CHECKING:
    import argparse

    from qoslet.app.bundle.inputs import BundleInputs
    from qoslet.app.inputs import Inputs
    from qoslet.core.resources.cgroup_tree import Plan


class NodeAudit:
    """What ``args`` name: a bundle, documents with this machine, or the node of the kubelet or agent that runs
    here. ``again``: what was noted of it before is not noted once more. Raises QosletError, BadInput
    without pods."""

    def __init__(self, args: argparse.Namespace, *, again: bool = False) -> None:
        from qoslet.app.inputs import bundle_of, read

        self._args = args
        self._is_new = True
        """Whether the inputs are those of no look so far."""
        self.bundle: BundleInputs | None = bundle_of(args)
        if self.bundle is not None:
            self._inputs = read(args, args.filename, again=again)
            return
        choose_tree(args)
        try:
            inputs = read(args, args.filename, again=again)
        except CannotDo as error:
            # without pods there is nothing to compare with
            raise BadInput(error.message, where=error.where or "-f", hint=error.hint) from None
        if args.runtime == "process":
            inputs = replace(inputs, node=as_written(inputs.node))
        self._inputs = self._on_node(inputs)

    def _on_node(self, inputs: Inputs) -> Inputs:
        """The pods that are to have cgroups now: of a tree that qoslet keeps without those that have
        ended for good."""
        found = scheduled(inputs)
        if self._args.live:
            return found
        pods = without_ended(found.pods, inputs.node.kubelet.cgroup_root)
        return found if len(pods) == len(found.pods) else replace(found, pods=pods)

    def look(self, pause: Callable[[float], object] = time.sleep) -> Audited:
        """Audit once: pods are read again with each look after the first, and what is off is looked at
        again after ``pause``. Raises QosletError."""
        if self.bundle is not None:
            return _audit_bundle(self._args, self.bundle, self._inputs)
        if not self._is_new:
            self._inputs = self._latest()
        self._is_new = False
        if self._args.live:
            return self._look_live(pause)
        can_ask = self._args.resources == "spec" and "-" not in self._args.filename
        allocated = (lambda: self._reloaded(allocated=True).plan()) if can_ask else None
        return audit_machine(self._inputs.plan(), None, allocated, pause=pause)

    def _latest(self) -> Inputs:
        """What the options name now. Raises QosletError."""
        if not self._args.live:
            return self._reloaded(allocated=self._args.resources == "allocated")
        from qoslet.app.inputs import read_live

        return scheduled(read_live(self._args, again=True))

    def _look_live(self, pause: Callable[[float], object]) -> Audited:
        """The audit of the node of a kubelet or an agent, which is asked again. Raises QosletError."""
        from qoslet.app.inputs import read_live

        inputs = self._inputs
        looks = [inputs]

        def again() -> Plan:
            looks.append(with_known_runtime(self._latest(), inputs))
            return looks[-1].plan()

        def allocated() -> Plan:
            chosen = self._args.resources
            self._args.resources = "allocated"
            try:
                return scheduled(read_live(self._args, again=True)).plan()
            finally:
                self._args.resources = chosen

        def releases() -> dict[str, Plan]:
            last = looks[-1]
            return {
                one: replace(last, node=node).plan() for one, node in last.other_releases().items()
            }

        def work() -> KubeletWork:
            seen = [one.work or KubeletWork() for one in looks]
            return replace(
                seen[-1],
                running=frozenset().union(*(one.running for one in seen)),
                is_new=seen[0].is_new,
                has_changed=any(one.has_changed for one in seen),
                is_assigning=any(one.is_assigning for one in seen),
            )

        can_ask = self._args.resources == "spec"
        chosen = allocated if can_ask else None
        beside = None if self._args.agent and inputs.work is None else work
        found = audit_machine(inputs.plan(), again, chosen, beside, releases, pause=pause)
        return found if beside is None else beside_agent(found)

    def _reloaded(self, *, allocated: bool) -> Inputs:
        """The inputs with the pods that the documents hold now. Raises BadInputs."""
        from qoslet.core.api.documents import options_of
        from qoslet.host.files.manifests import load

        args = self._args
        options = options_of(args, self._inputs.node.name, allocated=allocated)
        pods = load(args.filename, options, recursive=args.recursive).pods
        return self._on_node(replace(self._inputs, pods=pods))


def beside_agent(found: Audited) -> Audited:
    """What was found beside a kubelet, without what its agent keeps otherwise than the kubelet would."""
    from qoslet.app.node.asked_guest import agent_held

    if not any(one.counts for one in found.report.findings):
        return found
    return _without_kept(found, agent_held(found.plan.node.kubelet.cgroup_root))


def _without_kept(found: Audited, kept: Mapping[tuple[str, str], str]) -> Audited:
    from qoslet.core.audit.resizing import without_kept

    return replace(found, report=without_kept(found.report, kept))


def with_known_runtime(inputs: Inputs, before: Inputs) -> Inputs:
    """The inputs; a runtime that does not answer in time now is the one that it was ``before``."""
    now, then = inputs.work, before.work
    if (now is not None and now.ready is not None) or then is None or then.ready is None:
        return inputs
    profile = replace(inputs.node.profile, runtime=before.node.profile.runtime)
    return replace(inputs, node=replace(inputs.node, profile=profile))


def _audit_bundle(args: argparse.Namespace, bundle: BundleInputs, inputs: Inputs) -> Audited:
    """The audit of a bundle, which does not change: it is looked at once. Raises BadInput,
    CannotDo."""
    from qoslet.core.api.documents import options_of
    from qoslet.core.node.node import needs_linux

    needs_linux(inputs.node)
    node = inputs.node
    source = bundle.tree(node.hierarchy)
    mounts = dict(node.host.mounts) if node.hierarchy == "v1" else {"unified": DEFAULT_POINT}

    running = bundle.running()

    def allocated() -> Plan:
        options = options_of(args, node.name, allocated=True)
        made = replace(inputs, pods=bundle.pods(options).pods).plan()
        return source.with_containers(made, running)

    def releases() -> dict[str, Plan]:
        found = inputs.other_releases().items()
        plans = {one: replace(inputs, node=node).plan() for one, node in found}
        return {one: source.with_containers(made, running) for one, made in plans.items()}

    can_ask = args.resources == "spec" and not args.filename
    plan = source.with_containers(inputs.plan(), running)
    known = bundle.kubelet_work()
    work = None if known is None or args.filename else lambda: known
    chosen = allocated if can_ask else None
    found = audit_source(plan, source, mounts, None, chosen, work, releases)
    return found if work is None else _without_kept(found, bundle.held())
