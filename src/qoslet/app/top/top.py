"""What ``qoslet top`` looks at: the plan of a node's pods, and its cgroups as they are now."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.memory.stat_parser import pairs
from qoslet.core.status.node_top import FILES_V1, FILES_V2, TopRow, top_rows
from qoslet.errors import CannotDo, QosletError

if TYPE_CHECKING:
    import argparse

    from qoslet.app.inputs import Inputs
    from qoslet.core.api.pod import Pod
    from qoslet.core.audit.live import LiveSource
    from qoslet.core.cgroup.observed import Observed
    from qoslet.core.resources.cgroup_tree import Plan

REPLAN_SECONDS = 10.0
"""How often the pods of a running kubelet or agent are asked for again."""


class NodeTop:
    """The node that ``args`` name. ``look`` reads its cgroups; ``plan`` is of its pods, asked for again
    every ``REPLAN_SECONDS`` where a kubelet or agent can be asked; ``ended`` are those pods of which all containers
    have. ``trouble`` is why that failed last, ``made_at`` when a bundle was made."""

    def __init__(self, args: argparse.Namespace) -> None:
        from qoslet.app.inputs import bundle_of, read

        self._args = args
        self._before: Observed | None = None
        self._bare: Plan | None = None
        self._planned_at = time.monotonic()
        self.trouble, self.seconds = "", 0.0
        self.ended: tuple[Pod, ...] = ()
        self.made_at: float | None = None
        bundle = bundle_of(args)
        if bundle is not None:
            inputs = read(args, args.filename)
            self.made_at = bundle.made_at()
            tree = bundle.tree(inputs.node.hierarchy)
            self.plan: Plan = tree.with_containers(inputs.plan(), bundle.running())
            self._observe_root = _of_source(tree, inputs.node.hierarchy)
            return
        self.plan = self._machine()
        self._observe_root = _of_machine(self.plan)

    def _machine(self) -> Plan:
        """The plan of this machine's pods. Raises QosletError."""
        from qoslet.app.inputs import read
        from qoslet.app.own_tree import choose_tree, own_containers

        args = self._args
        choose_tree(args)
        plan = self._plan_of(read(args, args.filename))
        if not args.live:
            self._bare = plan
        return own_containers(plan)

    def look(self) -> tuple[TopRow, ...]:
        """Read the cgroups of the node once more."""
        self.replan()
        now = self._observe()
        rows = top_rows(self.plan, self._before, now)
        self.seconds = now.at - self._before.at if self._before is not None else 0.0
        self._before = now
        return rows

    def replan(self) -> None:
        """Ask for the pods again where that is due."""
        now = time.monotonic()
        if now - self._planned_at < REPLAN_SECONDS:
            return
        self._planned_at = now
        if self._bare is not None:
            from qoslet.app.own_tree import own_containers

            plan = own_containers(self._bare)
            self.plan = self.plan if plan == self.plan else plan
        if not getattr(self._args, "live", False):
            return
        try:
            from qoslet.app.inputs import read_live
            from qoslet.app.own_tree import own_containers

            plan = self._plan_of(read_live(self._args, again=True))
            self.plan, self.trouble = own_containers(plan), ""
        except QosletError as error:
            # the pods that are known stay on the screen
            self.trouble = str(error)

    def _plan_of(self, inputs: Inputs) -> Plan:
        self.ended = tuple(inputs.loaded.ended) if inputs.loaded is not None else ()
        return inputs.plan()

    def _observe(self) -> Observed:
        """The cgroups below every top of the plan."""
        found: Observed | None = None
        for root in _tops(self.plan):
            seen = self._observe_root(root)
            if found is None:
                found = seen
            else:
                found = type(seen)(found.at, {**found.cgroups, **seen.cgroups})
        if found is None:
            raise CannotDo("the plan has no cgroups", hint="give pods with -f")
        return found


def _tops(plan: Plan) -> list[str]:
    """The highest paths that a plan has."""
    paths = sorted({cgroup.path for cgroup in plan.cgroups if cgroup.path})
    tops: list[str] = []
    for path in paths:
        if not any(is_at_or_below(path, top) for top in tops):
            tops.append(path)
    return tops


def _of_machine(plan: Plan) -> Callable[[str], Observed]:
    """Reads subtrees of this machine. Raises CannotDo where it is another one than the plan's."""
    from qoslet.app.audit.machine import machine_source
    from qoslet.host.cgroupfs.observe.observer import CgroupObserver

    hierarchy, mounts = plan.node.hierarchy, machine_source(plan)[1]
    return CgroupObserver(hierarchy, mounts, _files(hierarchy)).observe


def _of_source(source: LiveSource, hierarchy: str) -> Callable[[str], Observed]:
    """Reads subtrees of what was kept of a node: always the same, so without rates."""
    from qoslet.core.audit.live import ReadRequest
    from qoslet.core.cgroup.observed import Observed, ObservedCgroup

    usage, kills = "memory.current", "memory.events"
    if hierarchy == "v1":
        usage, kills = "memory.usage_in_bytes", "memory.oom_control"
    files = {*_files(hierarchy), usage, kills}

    def observe(root: str) -> Observed:
        live = source.read(ReadRequest((root,), (), {}, tuple(files), frozenset()))
        found = {}
        for path, one in live.cgroups.items():
            used = one.values.get(usage, "")
            memory = int(used) if used.isdigit() else None
            killed = pairs(one.values.get(kills)).get("oom_kill")
            found[path] = ObservedCgroup(
                path, one.identity, one.values, memory=memory, oom_kills=killed
            )
        return Observed(0.0, found)

    return observe


def _files(hierarchy: str) -> tuple[str, ...]:
    """What is read of each cgroup."""
    return FILES_V2 if hierarchy == "v2" else FILES_V1
